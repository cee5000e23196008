"""Agent tasks as reinforcement-learning datasets for tinker-cookbook."""
