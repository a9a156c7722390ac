"""Texts that become code where a page reads them as markup, an address or a template; and a look whether one did."""

from __future__ import annotations

from typing import Final

CALL: Final = "window.wasOwned=1"
TEXTS: Final = (
    f"<script>{CALL}</script>",
    f"<img src=x onerror={CALL}>",
    f'"><svg onload={CALL}>',
    f"'-{CALL}-'",
    f"javascript:{CALL}",
    f"</script><script>{CALL}</script>",
    f"</style><script>{CALL}</script>",
    f"</textarea></title><script>{CALL}</script>",
    f'<iframe srcdoc="<script>parent.{CALL}</script>"></iframe>',
    f'<a href="javascript:{CALL}">click me</a>',
    f"[click me](javascript:{CALL})",
    f'![picture](x" onerror="{CALL})',
    f"![picture](data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{CALL}'/>)",
    f"$\\href{{javascript:{CALL}}}{{x}}$",
    f"```html\n<script>{CALL}</script>\n```",
    f"<details open ontoggle={CALL}>x</details>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={CALL}>",
    f'<noscript><p title="</noscript><img src=x onerror={CALL}>">',
    f"\x1b]8;;javascript:{CALL}\x07click me\x1b]8;;\x07",
    f"{{{{constructor.constructor('{CALL}')()}}}}",
    f"${{{CALL}}}",
    f'<form action="javascript:{CALL}"><button autofocus onfocus={CALL}>',
    f"<base href=//evil.example/><script src=x.js></script><img src=//evil.example/{CALL}>",
    "<style>@import '//evil.example/x.css';</style>",
    f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<b>\n+<img src=x onerror={CALL}>",
)
ALL: Final = " ".join(TEXTS)

# Clicks whatever can be clicked, opens what is folded, chooses each choice and types into each field; again, because
# what a click brings can be clicked too. Links away from the page are looked at, not followed.
CLICK_EVERYTHING: Final = """
(async () => {
  const pause = () => new Promise((done) => setTimeout(done, 30));
  const tell = (node, kind) => node.dispatchEvent(new Event(kind, { bubbles: true }));
  const done = new WeakSet();
  let clicks = 0;
  for (let round = 0; round < 4; round += 1) {
    const kinds = 'button, summary, [role="button"], input[type="checkbox"], a[href^="#"], a:not([href]), [tabindex]';
    for (const node of document.querySelectorAll(kinds)) {
      if (done.has(node) || clicks > 400) continue;
      done.add(node);
      node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
      node.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
      clicks += 1;
      if (clicks % 5 === 0) await pause();
    }
    await pause();
  }
  for (const node of document.querySelectorAll("select")) {
    for (const choice of [...node.options].slice(0, 8)) {
      node.value = choice.value;
      tell(node, "input");
      tell(node, "change");
      await pause();
    }
  }
  for (const node of document.querySelectorAll('input:not([type="checkbox"]), textarea')) {
    node.value = TYPED;
    tell(node, "input");
    tell(node, "change");
    await pause();
  }
  await pause();
  return clicks;
})()
"""
# Attributes that would run, or lead to code; the page's own icon is a picture in its address.
STRANGE: Final = """
[...document.querySelectorAll("*")].flatMap((node) => [...node.attributes]
  .filter((one) => /^on/i.test(one.name) || (/^(href|src|action|formaction|xlink:href|srcdoc)$/i.test(one.name)
    && /^\\s*(javascript|vbscript|data:(?!image\\/(png|jpeg|gif|webp|svg\\+xml,%3Csvg)))/i.test(one.value)))
  .map((one) => `${node.tagName} ${one.name}=${one.value.slice(0, 80)}`))
"""
