"use strict";
// A rollout taken along: its row, a verifier case as `gym case add` writes it, a curl command that runs it again.
const KEPT_OF_RESPONSE = ["output", "status", "incomplete_details"]; // ids and times are of that day

async function copyText(text, button) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    showForCopy(text); // no clipboard outside a secure context
    return;
  }
  setTimeout(() => { button.textContent = was; }, 1500);
}

function showForCopy(text) {
  const area = make("textarea", "copy-area"), close = make("button", "", "Close");
  area.value = text;
  area.readOnly = true;
  const dialog = make("dialog", "", make("h2", "", "Copy this"), area, close);
  close.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
  area.select();
}

/** The row as it was sent: from the run's inputs where they lie beside it, else the line without its verdict. */
function rowOfRollout(body, asked) {
  const given = isObject(asked) ? asked : Object.fromEntries(Object.entries(body).filter(([key]) => !["response", "reward", "reason", "_gym"].includes(key)));
  return Object.fromEntries(Object.entries(given).filter(([key]) => !key.startsWith("_ng_")));
}

function rolloutToCase(body, asked) {
  const given = isObject(body.response) ? body.response : {}, key = asText(isObject(body._gym) ? body._gym.key : "");
  const response = Object.fromEntries(KEPT_OF_RESPONSE.filter((name) => given[name] !== null && given[name] !== undefined).map((name) => [name, given[name]]));
  const { agent_ref: _, ...row } = rowOfRollout(body, asked);
  const expected = typeof body.reward === "number" ? body.reward : 0;
  return { name: `rollout ${key}`, request: { ...row, response }, kind: expected <= 0 ? "zero_reward" : expected >= 1 ? "full_reward" : "partial", expected_reward: expected };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const inStack = () => Boolean(document.querySelector('#menu a[href="/view/stack"]'));

function rolloutToCurl(body, asked, agent) {
  const name = encodeURIComponent(agent || "AGENT");
  const router = inStack() ? location.origin : "http://127.0.0.1:11000";
  return [`curl "\${GYM_URL:-${router}}/s/${name}/run" \\`, "  -H 'content-type: application/json' \\", `  -d ${quoted(JSON.stringify(rowOfRollout(body, asked)))}`].join("\n");
}

/** Buttons; what is copied is made when one is pressed. */
function copyButtons(row, body) {
  const asked = () => Promise.resolve(source.asked(row)).catch(() => null);
  const forms = {
    row: async () => JSON.stringify(rowOfRollout(body, await asked())),
    case: async () => JSON.stringify(rolloutToCase(body, await asked())),
    curl: async () => rolloutToCurl(body, await asked(), row.agent),
  };
  return make("span", "copies", "copy ", Object.entries(forms).map(([name, write]) => {
    const button = make("button", "", name);
    button.title = { row: "The row as a line of a data set", case: "A verifier case, as `gym case add` writes it", curl: "A command that runs the row again" }[name];
    button.onclick = async () => copyText(await write(), button);
    return button;
  }));
}
