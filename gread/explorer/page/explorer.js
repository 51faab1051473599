// The page: three tabs, and a link that contains the state of the current one.

const DATA = JSON.parse(document.getElementById("data").textContent);

const VIEWS = { playground: "Playground", model: "Trained model", leaderboard: "Leaderboard" };

const { settings: opened, wrong: unknown } = readLink(location.hash);
let settings = opened;
let written = "";
let writing = null;

/** Write the link at most every 250 ms, because browsers limit the rate. */
function changed() {
  writing ??= setTimeout(() => {
    writing = null;
    written = writeLink(settings);
    history.replaceState(null, "", written);
  }, 250);
}

const views = {
  playground: new Playground(settings, changed),
  model: new TrainedView(settings, changed),
  leaderboard: new Leaderboard(settings, changed),
};

const tabs = Object.fromEntries(
  Object.entries(VIEWS).map(([name, title]) => [
    name,
    html("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, onclick: () => show(name) }, title),
  ]),
);
const tablist = html("div", { role: "tablist", class: "tabs", "aria-label": "views" }, ...Object.values(tabs));
tablist.addEventListener("keydown", ({ key }) => {
  const way = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (!way) return;
  const names = Object.keys(VIEWS);
  const next = names[(names.indexOf(settings.view) + way + names.length) % names.length];
  show(next);
  tabs[next].focus();
});

function show(name) {
  settings.view = name;
  for (const [other, view] of Object.entries(views)) {
    tabs[other].setAttribute("aria-selected", String(other === name));
    tabs[other].tabIndex = other === name ? 0 : -1;
    view.root.hidden = other !== name;
  }
  if (name !== "playground" && views.playground.playing) views.playground.play(false);
  tell(null);
  views[name].shownNow?.();
  changed();
}

const copied = html("button", { type: "button", class: "play", id: "share", onclick: share }, "copy link");
async function share() {
  written = writeLink(settings);
  history.replaceState(null, "", written);
  try {
    await navigator.clipboard.writeText(location.href);
    copied.textContent = "copied";
  } catch {
    copied.textContent = "copy the link from the address bar"; // the clipboard is not available
  }
  setTimeout(() => (copied.textContent = "copy link"), 2500);
}

for (const [name, view] of Object.entries(views)) {
  view.root.id = `view-${name}`;
  view.root.setAttribute("role", "tabpanel");
  view.root.setAttribute("aria-labelledby", `tab-${name}`);
}

const notice = html(
  "p",
  { class: "warning", role: "alert", hidden: unknown.length === 0 },
  unknown.length ? `This page does not support these settings of the link: ${unknown.join(", ")}. The other settings are applied.` : "",
);

document.body.append(
  html("header", { class: "bar" }, html("h1", {}, "GREAD explorer"), tablist, html("div", { class: "tools" }, copied, themeSwitch())),
  html("main", {}, notice, ...Object.values(views).map(({ root }) => root)),
  html(
    "footer",
    {},
    `Graph neural reaction-diffusion networks (Choi et al., ICML 2023). gread ${DATA.version}. Everything is computed ${DATA.served ? "on this machine" : "in your browser"}.`,
  ),
  tooltip,
);

function openLink(next) {
  settings = next;
  for (const view of Object.values(views)) view.settings = settings;
  show(settings.view);
  views.model.open(settings);
  views.leaderboard.open(settings);
  return views.playground.open(settings);
}

addEventListener("hashchange", () => {
  if (location.hash === written) return;
  openLink(readLink(location.hash).settings);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, button, summary, [role=tab]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || settings.view === "leaderboard") return;
  const act = views[settings.view].keys?.[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
});

openLink(settings);
