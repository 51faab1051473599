// Light and dark theme.

const THEMES = { auto: "light or dark, as in the system", light: "light", dark: "dark" };

/** Button that cycles through system, light and dark; the choice is stored if the browser allows it. */
function themeSwitch() {
  const names = Object.keys(THEMES);
  let theme = "auto";
  try {
    theme = localStorage.getItem("gread-theme") ?? "auto";
  } catch {
    // a page opened from a file may have no storage
  }
  const button = html("button", { type: "button", id: "theme", onclick: () => set(names[(names.indexOf(theme) + 1) % 3]) });
  const set = (next) => {
    theme = THEMES[next] ? next : "auto";
    document.documentElement.dataset.theme = theme;
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
    button.title = THEMES[theme];
    button.setAttribute("aria-label", THEMES[theme]);
    try {
      localStorage.setItem("gread-theme", theme);
    } catch {
      // no storage
    }
  };
  set(theme);
  return button;
}
