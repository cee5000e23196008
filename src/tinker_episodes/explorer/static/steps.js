// The steps of a run: they come column by column, and are shown row by row.

/** The rows of `{numbers, scores, cuts}`, each of which holds lists of one value a step. */
export function stepRows({ numbers, scores, cuts }) {
  return numbers.step.map((_, at) => ({
    ...valuesAt(numbers, at),
    scores: valuesAt(scores, at, (value) => value !== null),
    cuts: valuesAt(cuts, at, (count) => count > 0),
  }));
}

function valuesAt(columns, at, kept = () => true) {
  const values = Object.entries(columns).map(([name, column]) => [name, column[at]]);
  return Object.fromEntries(values.filter(([, value]) => kept(value)));
}
