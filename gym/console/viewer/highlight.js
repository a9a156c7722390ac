"use strict";
// Colours for code: a few languages by their tokens alone, which is enough to read by. Long code stays plain.
const MAX_COLOURED = 60000;
const anyWord = (list) => new RegExp(`\\b(?:${list.split(" ").join("|")})\\b`);
const STRINGS = /"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?/;
const NUMBERS = /\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\b/;
const GRAMMARS = {
  python: {
    comment: /#[^\n]*/,
    string: new RegExp(`\\b[rRbBfFuU]{0,2}(?:"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^])))|(?:"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^])))|${STRINGS.source}`),
    defined: /(?<=\b(?:def|class) {1,4})\w+/,
    keyword: anyWord("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield"),
    constant: anyWord("True False None self cls"),
    special: /@[\w.]+/,
    number: NUMBERS,
  },
  json: { defined: /"(?:\\[^]|[^"\\\n])*"(?=[ \t]{0,20}:)/, string: STRINGS, constant: anyWord("true false null"), number: /-?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b/ },
  shell: {
    comment: /(?<![^\s;])#[^\n]*/,
    string: /"(?:\\[^]|[^"\\])*"?|'[^']*'?/,
    special: /\$\{[^}\n]*\}?|\$\w+|\$[@#?*!$-]/,
    keyword: anyWord("if then else elif fi for while until do done case esac in function return exit export local set cd echo sudo"),
    constant: /(?<=\s)--?[A-Za-z][\w-]*/,
    number: NUMBERS,
  },
  javascript: {
    comment: /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$(?![^]))/,
    string: new RegExp(`${STRINGS.source}|\`(?:\\\\[^]|[^\`\\\\])*\`?`),
    defined: /(?<=\b(?:function|class) {1,4})\w+/,
    keyword: anyWord("async await break case catch class const continue default delete do else export extends finally for function if import in instanceof interface let new of return static super switch this throw try type typeof var void while yield"),
    constant: anyWord("true false null undefined NaN"),
    number: NUMBERS,
  },
  sql: {
    comment: /--[^\n]*|\/\*[^]*?(?:\*\/|$(?![^]))/,
    string: /'(?:''|[^'])*'?/,
    keyword: /\b(?:select|from|where|and|or|not|in|is|null|as|on|join|left|right|inner|outer|group|order|by|having|limit|offset|union|all|distinct|insert|into|values|update|set|delete|create|table|index|view|drop|alter|primary|key|foreign|references|case|when|then|else|end|like|between|exists|with|asc|desc|count|sum|avg|min|max)\b/i,
    number: NUMBERS,
  },
};
const ALIASES = { py: "python", python3: "python", pycon: "python", sh: "shell", bash: "shell", zsh: "shell", console: "shell", js: "javascript", ts: "javascript", jsx: "javascript", tsx: "javascript", typescript: "javascript", mjs: "javascript", c: "javascript", cpp: "javascript", java: "javascript", go: "javascript", rust: "javascript", rs: "javascript", jsonl: "json", json5: "json", patch: "diff", sqlite: "sql", mysql: "sql", postgresql: "sql", h: "javascript", cc: "javascript" };
const PATTERNS = new Map(Object.entries(GRAMMARS).map(([name, rules]) => [name, new RegExp(Object.entries(rules).map(([kind, rule]) => `(?<${kind}>${rule.source})`).join("|"), name === "sql" ? "gi" : "g")]));

const knownLanguage = (name) => { const plain = asText(name).trim().toLowerCase().slice(0, 40); return ALIASES[plain] && Object.hasOwn(ALIASES, plain) ? ALIASES[plain] : plain; };
const languageOfPath = (path) => { const end = /\.(\w{1,12})$/.exec(asText(path)); return end ? knownLanguage(end[1]) : ""; };

/** The code as nodes; a language that is not known leaves it plain. */
function highlightCode(text, language) {
  const pattern = PATTERNS.get(knownLanguage(language));
  if (!pattern || text.length > MAX_COLOURED) return signs(text);
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    if (!found[0]) continue;
    if (found.index > end) nodes.push(...signs(text.slice(end, found.index)));
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    nodes.push(make("span", `hl-${kind}`, signs(found[0])));
    end = found.index + found[0].length;
  }
  return [...nodes, ...signs(text.slice(end))];
}

/** A language for a text that names none; "" for what is likely prose or a log. */
function guessLanguage(text) {
  const head = text.slice(0, 4000);
  if (/^\s*[[{]/.test(head) && typeof parsed(text) === "object") return "json";
  if (looksLikeDiff(text)) return "diff";
  if (/^#!.*\b(ba|z)?sh\b/.test(head)) return "shell";
  if (/^#!.*python/.test(head) || /^(?:from [\w.]+ import |import \w+|def \w+\(|class \w+[(:]|async def )/m.test(head)) return "python";
  if (/^(?:const|let|function|export|import) .*[;{]$/m.test(head)) return "javascript";
  return "";
}
