// Examples on the first screen.

/** Examples, as differences from the default settings. */
const SCENES = [
  { title: "Figure 1", about: "A noisy letter: diffusion blurs it, blurring-sharpening keeps it.", to: {} },
  {
    title: "Oversmoothing",
    about: "The karate club: diffusion makes both groups equal, FB* keeps them apart.",
    to: { graph: "karate", start: "classes", reaction: "fb*", beta: [0.35], tau: 0.1, time: 20, loops: 1, palette: "blue-orange" },
  },
  {
    title: "Two phases",
    about: "Allen-Cahn: every node moves to −1 or 1, and regions form with moving borders.",
    to: {
      graph: "geometric",
      n: 4000,
      degree: 14,
      start: "signed",
      seed: 4,
      reaction: "ac",
      beta: [0.5],
      tau: 0.1,
      time: 40,
      palette: "blue-orange",
      colours: "now",
      normalization: "symmetric",
    },
  },
  {
    title: "A wave",
    about: "Fisher: a spot spreads as a wave over 10,000 nodes.",
    to: { n: 10000, start: "spot", reaction: "f", beta: [0.5], tau: 0.5, time: 120, palette: "viridis" },
  },
  {
    title: "A pattern from noise",
    about: "Blurring-sharpening with β > α: one wavelength grows fastest and forms a pattern, as in Turing’s theory.",
    to: { n: 6400, start: "noise", alpha: [0.8], beta: [1.1], tau: 0.5, time: 200, colours: "now", palette: "cividis" },
  },
  {
    title: "Heterophily",
    about: "Most neighbours differ in class: averaging mixes them, a filter bank with β > α amplifies the difference.",
    to: {
      graph: "sbm",
      n: 300,
      homophily: 0.1,
      degree: 10,
      start: "classes",
      reaction: "fb",
      beta: [1.2],
      tau: 0.1,
      time: 8,
      palette: "blue-orange",
      colours: "now",
      normalization: "symmetric",
      loops: 1,
    },
  },
];

/** Default settings of the playground. */
function sceneDefaults() {
  const all = defaults();
  return Object.fromEntries(CARRIED.playground.map((name) => [name, all[name]]));
}
