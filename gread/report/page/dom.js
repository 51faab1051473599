// Elements of the page. Data is inserted as text or as a checked value, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** HTML element with attributes, listeners (onclick: ...) and children. */
function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** SVG element. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Data colour; the dark theme may replace it with a lighter one. */
function ink(colour) {
  if (!/^#[0-9a-f]{6}$/i.test(colour)) return "currentColor";
  return `var(--c${colour.slice(1).toUpperCase()}, ${colour})`;
}

/** Format a number with four significant digits. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [digits, power] = value.toExponential(1).split("e");
    return `${digits.replace("-", "−")}·10${raised(Number(power))}`;
  }
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

function raised(power) {
  return String(power).replace(/[-0-9]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit] ?? "⁻");
}
