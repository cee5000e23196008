// Pictures of transcripts. They come from the index alone; what is no plain raster picture is not drawn.

import { getPicture } from "./api.js";
import { el, kept } from "./dom.js";
import { plain } from "./text.js";

const DRAWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** An image part of a message: `{media_type, hash}`, or `{media_type, data}` in base64. */
export function picture(part) {
  const label = `image, ${plain(String(part.media_type), 60)}${part.hash ? `, ${part.hash.slice(0, 12)}` : ""}`;
  if (!DRAWN.has(part.media_type)) return el("p", { class: "placeholder" }, `${label}: not drawn, since it is no PNG, JPEG, GIF or WebP`);
  const image = el("img", { alt: label });
  const figure = el("figure", { class: "picture" }, image, el("figcaption", {}, label));
  const failed = (why) => figure.replaceChildren(el("p", { class: "placeholder" }, `${label}: ${why}`));
  image.addEventListener("error", () => failed("its bytes are no such picture"));
  figure.fetchPicture = () =>
    address(part).then(
      (source) => (image.src = source),
      (error) => failed(plain(error.message)),
    );
  nearing.observe(figure);
  return kept(figure, part.hash ?? part.data);
}

// A transcript may have thousands of pictures: each is asked for when it comes near the screen.
const nearing = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      nearing.unobserve(target);
      target.fetchPicture();
    }
  },
  { rootMargin: "600px" },
);

async function address(part) {
  if (part.hash) return getPicture(part.hash);
  const bytes = Uint8Array.from(atob(part.data), (character) => character.charCodeAt(0));
  return URL.createObjectURL(new Blob([bytes], { type: part.media_type }));
}
