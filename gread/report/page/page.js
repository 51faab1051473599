// The page: contents, claims of the paper, and a section for every table and figure.

const { title, about, sections } = JSON.parse(document.getElementById("data").textContent);

const GROUPS = [
  ["Figures", (name) => name.startsWith("figure-")],
  ["Tables", (name) => name.startsWith("table-")],
  ["Beyond the paper", () => true],
];

/** Sections by group. */
const groups = GROUPS.map(([heading, fits], place) => ({
  heading,
  members: sections.filter(({ name }) => GROUPS.findIndex(([, other]) => other(name)) === place),
})).filter(({ members }) => members.length);

function contents() {
  const list = groups.map(({ heading, members }) =>
    html(
      "section",
      {},
      html("h2", {}, heading),
      html(
        "ul",
        {},
        ...members.map(({ name, shown, empty }) =>
          html("li", {}, html("a", { href: `#${name}`, class: empty ? "empty" : null }, shown.title)),
        ),
      ),
    ),
  );
  return html("nav", { "aria-label": "contents" }, html("details", { open: innerWidth >= 1000 }, html("summary", {}, "Contents"), ...list));
}

function claim({ says, here, holds }, section = null) {
  return html(
    "li",
    { class: holds ? "holds" : "fails" },
    html("strong", {}, holds ? "Agrees" : "Disagrees"),
    section ? html("a", { href: `#${section.name}` }, section.shown.title.split(":")[0]) : null,
    html("p", {}, `The paper says that ${says}. Here: ${here}.`),
  );
}

/** List of all claims, those that do not hold first. */
function claims() {
  const found = new Map(); // a claim of two tables counts once
  for (const section of sections) {
    for (const said of section.shown.claims) {
      const text = said.says + said.here;
      if (!found.has(text)) found.set(text, { said, section });
    }
  }
  const all = [...found.values()];
  if (!all.length) return null;
  const holding = all.filter(({ said }) => said.holds).length;
  all.sort((a, b) => Number(a.said.holds) - Number(b.said.holds));
  return html(
    "section",
    { id: "claims" },
    html("h2", {}, "Claims of the paper, compared with our results"),
    html("p", {}, `${all.length} claims of the paper are compared with the numbers on this page: our results agree with ${holding} and disagree with ${all.length - holding}.`),
    html("ul", { class: "claims" }, ...all.map(({ said, section }) => claim(said, section))),
  );
}

function runs({ stored, needed, scale, command }) {
  if (needed === 0) return html("p", { class: "runs" }, "measured, no runs");
  const parts = [`${stored} of ${needed} runs`];
  if (scale !== "full") parts.push(` at ${scale} scale; with the paper’s protocol: `, html("code", {}, command));
  else if (stored < needed) parts.push("; compute the others with: ", html("code", {}, command));
  return html("p", { class: "runs" }, ...parts);
}

function article(section) {
  const { name, kind, shown, empty } = section;
  const printed = shown.title.match(/^((?:Figure|Table) \d+): (.*)$/);
  const heading = printed ? [html("span", {}, printed[1]), ` ${printed[2]}`] : [shown.title];
  const root = html("article", { id: name, class: kind }, html("h2", {}, html("a", { href: `#${name}` }, ...heading)));
  if (empty) {
    root.append(html("p", { class: "runs" }, `None of its ${section.needed} runs is stored. Compute them with: `, html("code", {}, section.command)));
    return root;
  }
  root.append(runs(section));
  if (shown.claims.length) root.append(html("ul", { class: "claims" }, ...shown.claims.map((said) => claim(said))));
  if (kind === "chart") root.append(new ChartView(shown).root);
  else if (shown.columns.length) root.append(drawTable(shown));
  if (shown.note) root.append(html("p", { class: "note" }, shown.note));
  return root;
}

const main = html("main", {}, html("header", {}, html("h1", {}, title), html("p", { class: "lead" }, about)));
const summary = claims();
if (summary) main.append(summary);
for (const { heading, members } of groups) {
  main.append(html("h2", { class: "part" }, heading), ...members.map(article));
}
document.body.append(html("div", { class: "bar" }, html("strong", {}, title), themeSwitch()), contents(), main, tooltip);
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();

/** Highlight the current section in the contents. */
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
const reading = new IntersectionObserver(
  (entries) => entries.forEach(({ target, isIntersecting }) => links.get(target.id)?.classList.toggle("here", isIntersecting)),
  { rootMargin: "-20% 0px -60% 0px" },
);
document.querySelectorAll("article").forEach((part) => reading.observe(part));
