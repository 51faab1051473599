// Labelled form controls: {root, sync(value)}.

let controls = 0;

function labelled(label, control, output = null, hint = "") {
  const id = `control-${(controls += 1)}`;
  control.id = id;
  return html("div", { class: "control", title: hint || null }, html("label", { for: id }, label), output, control);
}

/** A slider with its current value. */
function slideControl(label, { min, max, step, text = (value) => number(value), hint = "", log = false }, change) {
  const output = html("output");
  const from = (value) => (log ? Math.log10(value) : value);
  const to = (place) => (log ? Number((10 ** place).toPrecision(2)) : place);
  const input = html("input", { type: "range", min: from(min), max: from(max), step: log ? 0.01 : step });
  const say = (value) => {
    output.textContent = text(value);
    input.setAttribute("aria-valuetext", text(value));
  };
  input.addEventListener("input", () => {
    const value = to(Number(input.value));
    say(value);
    change(value);
  });
  return {
    root: labelled(label, input, output, hint),
    input,
    sync(value) {
      input.value = from(value);
      say(value);
    },
  };
}

/** A select element with choices [[value, text], ...]. */
function choiceControl(label, choices, change) {
  const input = html("select", { onchange: () => change(input.value) }, ...choices.map(([value, text]) => html("option", { value }, text)));
  return {
    root: labelled(label, input),
    input,
    sync(value) {
      input.value = value;
    },
  };
}

function checkControl(label, change) {
  const input = html("input", { type: "checkbox", onchange: () => change(input.checked) });
  return {
    root: html("label", { class: "check" }, input, ` ${label}`),
    sync(value) {
      input.checked = value;
    },
  };
}

/** A coefficient: one slider for all channels, or one per channel. */
function coefficientControl(name, range, change) {
  const place = html("div");
  const box = html("input", { type: "checkbox" });
  const root = html(
    "fieldset",
    { class: "coefficient" },
    html("legend", {}, name),
    html("label", { class: "check" }, box, " per channel"),
    place,
  );
  let [values, channels] = [[1], 1];
  box.addEventListener("change", () => change(box.checked ? Array(channels).fill(values[0]) : [values[0]]));
  const draw = () => {
    box.checked = values.length > 1;
    box.disabled = channels === 1;
    box.parentElement.hidden = channels === 1;
    const sliders = values.map((value, k) => {
      const slider = slideControl(values.length > 1 ? `${name} of channel ${k + 1}` : name, range, (next) => {
        values = values.map((other, j) => (j === k ? next : other));
        change(values);
      });
      slider.sync(value);
      return slider.root;
    });
    place.replaceChildren(...sliders);
  };
  return {
    root,
    sync(next, count) {
      const same =
        next.length === values.length && next.every((value, k) => value === values[k]) && count === channels && place.childElementCount;
      [values, channels] = [next, count];
      if (!same) draw();
    },
  };
}
