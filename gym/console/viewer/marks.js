"use strict";
// Flags and notes on a rollout, kept beside its file; a page without a server shows those that came along.

/** The flag, and below it the note. `mark` of the source stores one change at a time, so that two people lose nothing. */
function marksBlock(row, found) {
  const state = { flag: Boolean(found.flag), note: asText(found.note), can: !found.problem };
  const flag = make("button", "flag"), status = make("span", "soft"), area = make("textarea", "note-text");
  const box = make("div", "note", area, status);
  const taken = make("a", "", "export flagged");
  taken.href = "/view/api/rollouts/export";
  taken.title = "All flagged rollouts as JSON lines, each with its note";
  const show = () => {
    taken.hidden = !state.flag || !source.live;
    flag.textContent = state.flag ? "⚑ flagged" : "⚐ flag";
    flag.setAttribute("aria-pressed", String(state.flag));
    flag.disabled = area.readOnly = !state.can;
    box.hidden = !state.note && document.activeElement !== area && !box.dataset.open;
  };
  const store = async (change) => {
    status.textContent = "storing…";
    try {
      Object.assign(state, await source.mark(row, change));
      status.textContent = `stored in ${asText(found.file)}`;
    } catch (error) {
      status.textContent = error.message;
    }
    show();
  };
  area.value = state.note;
  area.placeholder = "A note on this rollout";
  area.setAttribute("aria-label", "Note on this rollout");
  area.onchange = () => { state.note = area.value; store({ note: area.value }); };
  area.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) area.blur(); };
  flag.onclick = () => store({ flag: !state.flag });
  const note = make("button", "add-note", state.note ? "note" : "add a note");
  note.onclick = () => { box.dataset.open = "true"; show(); area.focus(); };
  note.hidden = !state.can && !state.note;
  status.textContent = found.problem ? asText(found.problem) : "";
  if (found.problem && source.live) box.dataset.open = "true";
  area.hidden = !state.can && !state.note;
  show();
  return { buttons: [flag, note, taken], box, toggle: () => state.can && flag.click(), write: () => state.can && note.click() };
}
