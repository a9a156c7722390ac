"use strict";
// LaTeX as MathML nodes. A command that is not known stays as its source; what cannot be parsed is null.
const MAX_MATHS = 8000, DEEPEST_MATHS = 40;
const MATHML = "http://www.w3.org/1998/Math/MathML";
const pairsOf = (pairs) => new Map(pairs.trim().split(/\s+/).map((pair) => pair.split("=")));
const GREEK = pairsOf(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ
  rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ
  Omega=Ω infty=∞ partial=∂ nabla=∇ hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ top=⊤ bot=⊥ angle=∠ triangle=△ square=□ blacksquare=■ qed=∎ prime=′ degree=°
  imath=ı jmath=ȷ forall=∀ exists=∃ nexists=∄ ldots=… cdots=⋯ dots=… vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ checkmark=✓ complement=∁ pounds=£ S=§ dagger=†`);
const OPERATORS = pairsOf(`cdot=⋅ times=× div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=• oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ cup=∪ cap=∩ setminus=∖ wedge=∧ land=∧ vee=∨ lor=∨ neg=¬ lnot=¬
  le=≤ leq=≤ leqslant=⩽ ge=≥ geq=≥ geqslant=⩾ ne=≠ neq=≠ ll=≪ gg=≫ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ in=∈ notin=∉ ni=∋ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇
  subsetneq=⊊ perp=⟂ parallel=∥ mid=∣ nmid=∤ to=→ rightarrow=→ leftarrow=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⟹ impliedby=⟸ iff=⟺ mapsto=↦
  longrightarrow=⟶ longleftarrow=⟵ Longrightarrow=⟹ uparrow=↑ downarrow=↓ hookrightarrow=↪ rightharpoonup=⇀ therefore=∴ because=∵ prec=≺ succ=≻ models=⊨ vdash=⊢ gets=← colon=:
  lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ langle=⟨ rangle=⟩ lbrace={ rbrace=} lbrack=[ rbrack=] vert=| lvert=| rvert=| Vert=‖ lVert=‖ rVert=‖ backslash=\\ doteq=≐ asymp=≍ lt=< gt=> triangleq=≜ coloneqq=≔`);
const LARGE = pairsOf("sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀");
const FUNCTIONS = new Set("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp det dim ker deg gcd lcm arg hom Pr max min sup inf lim limsup liminf argmax argmin".split(" "));
const LIMITS = new Set("max min sup inf lim limsup liminf argmax argmin det gcd Pr".split(" "));
const SPACES = new Map([[",", 0.17], [":", 0.22], [">", 0.22], [";", 0.28], ["!", 0], [" ", 0.25], ["quad", 1], ["qquad", 2], ["enspace", 0.5], ["thinspace", 0.17], ["medspace", 0.22], ["thickspace", 0.28], ["enskip", 0.5]]);
const ACCENTS = pairsOf("hat=^ widehat=^ bar=¯ overline=¯ tilde=~ widetilde=~ vec=→ overrightarrow=→ dot=˙ ddot=¨ check=ˇ breve=˘ acute=´ grave=` overbrace=⏞");
const UNDERS = pairsOf("underline=_ underbrace=⏟");
const FONTS = new Map(Object.entries({ mathbf: "bold", boldsymbol: "bold", bm: "bold", mathrm: "upright", mathit: "", mathsf: "sans", mathtt: "mono", mathbb: "double", mathcal: "script", mathscr: "script", mathfrak: "fraktur", operatorname: "upright", mathop: "", mathord: "", mathbin: "", mathrel: "", mathopen: "", mathclose: "" }));
const MATHS_TEXTS = new Set("text textrm textbf textit textsf texttt textnormal mbox hbox textup".split(" "));
const FENCES = { matrix: "", smallmatrix: "", pmatrix: "()", bmatrix: "[]", Bmatrix: "{}", vmatrix: "||", Vmatrix: "‖‖", cases: "{", dcases: "{", rcases: " }", array: "", aligned: "", align: "", gathered: "", gather: "", split: "", equation: "", alignedat: "", multline: "", eqnarray: "", subarray: "" };
const DOUBLE_STRUCK = { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ", E: "𝔼", F: "𝔽", K: "𝕂", 1: "𝟙" };
const SIZES = /^(?:[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|notag|nonumber|hline|centering|small|large|Large|normalsize|mathstrut|strut|allowbreak|nobreak|protect)$/;

class MathsError extends Error {}

/** A `math` element, or null where the source is not maths that can be shown. */
function mathsNode(source, display = false) {
  if (source.length > MAX_MATHS || !source.trim()) return null;
  try {
    const reader = { tokens: mathsTokens(source), at: 0, depth: 0, display };
    const row = mathsRow(reader, () => false);
    const broken = row.some((one) => one === "break" || one === "cell");
    const body = broken ? mathsTable(rowsOfCells(row), "aligned") : mathsGroup(row);
    const node = mathsElement("math", body);
    if (display) node.setAttribute("display", "block");
    node.setAttribute("aria-label", source);
    return node;
  } catch (error) {
    if (error instanceof MathsError) return null;
    throw error;
  }
}

function mathsElement(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== ""));
  return node;
}

function mathsTokens(source) {
  return [...source.matchAll(/\\(?:[A-Za-z]+\*?|[^])|%[^\n]*|\s+|\d+(?:[.,]\d+)*|[^]/gu)].map((found) => found[0]).filter((one) => !one.startsWith("%"));
}

/** Nodes up to what ends them, which stays unread. */
function mathsRow(reader, ends) {
  const nodes = [];
  while (reader.at < reader.tokens.length) {
    const token = reader.tokens[reader.at];
    if (ends(token)) return nodes;
    if (token === "}") throw new MathsError("a } without its {");
    const one = token === "^" || token === "_" || token === "'" ? mathsElement("mrow") : mathsAtom(reader);
    if (one === null) continue;
    nodes.push(typeof one === "string" ? one : mathsScripts(reader, one));
  }
  if (!ends("")) return nodes;
  throw new MathsError("it ends too early");
}

const mathsGroup = (nodes) => { const shown = nodes.filter((one) => typeof one !== "string"); return shown.length === 1 ? shown[0] : mathsElement("mrow", shown); };

function mathsScripts(reader, base) {
  let sub = null, sup = null, primes = "";
  for (;;) {
    skipBlanks(reader);
    const token = reader.tokens[reader.at];
    if (token === "\\limits" || token === "\\nolimits") reader.at += 1;
    else if (token === "'") { primes += "′"; reader.at += 1; }
    else if (token === "_" && !sub) { reader.at += 1; sub = mathsArgument(reader); }
    else if (token === "^" && !sup) { reader.at += 1; sup = mathsArgument(reader); }
    else if (token === "_" || token === "^") throw new MathsError("two scripts at one place");
    else break;
  }
  if (primes) { const mark = mathsElement("mo", primes); sup = sup ? mathsElement("mrow", mark, sup) : mark; }
  if (!sub && !sup) return base;
  const around = base.limits && (reader.display || base.limits === "always");
  const [both, below, above] = around ? ["munderover", "munder", "mover"] : ["msubsup", "msub", "msup"];
  return sub && sup ? mathsElement(both, base, sub, sup) : sub ? mathsElement(below, base, sub) : mathsElement(above, base, sup);
}

function skipBlanks(reader) {
  while (reader.at < reader.tokens.length && /^\s/.test(reader.tokens[reader.at])) reader.at += 1;
}

/** A group in braces, or the one thing that comes next. */
function mathsArgument(reader) {
  skipBlanks(reader);
  if (reader.at >= reader.tokens.length) throw new MathsError("an argument is missing");
  const token = reader.tokens[reader.at];
  if (/^\d./.test(token)) reader.tokens.splice(reader.at, 1, token[0], token.slice(1)); // \frac14, x^10
  const node = mathsAtom(reader);
  if (node === null || typeof node === "string") throw new MathsError("an argument is missing");
  return node;
}

function mathsAtom(reader) {
  if ((reader.depth += 1) > DEEPEST_MATHS) throw new MathsError("too deep");
  try {
    const token = reader.tokens[reader.at];
    reader.at += 1;
    if (/^\s/.test(token)) return null;
    if (token === "{") return mathsBraces(reader);
    if (token === "&") return "cell";
    if (token === "\\\\" || token === "\\newline") { mathsOption(reader); return "break"; }
    if (token === "~") return mathsSpace(0.25);
    if (token.startsWith("\\")) return mathsCommand(reader, token.slice(1));
    return mathsCharacter(token);
  } finally {
    reader.depth -= 1;
  }
}

function mathsBraces(reader) {
  const inside = mathsRow(reader, (token) => token === "}" || token === "");
  reader.at += 1;
  return mathsGroup(inside);
}

function mathsCharacter(token) {
  if (/^\d/.test(token)) return mathsElement("mn", token);
  if (/^\p{L}/u.test(token)) return mathsElement("mi", token);
  const node = mathsElement("mo", ...signs(token === "-" ? "−" : token === "*" ? "∗" : token));
  if (/^[()[\]|/]$/.test(token)) node.setAttribute("stretchy", "false");
  if (/^[|.!/]$/.test(token)) for (const side of ["lspace", "rspace"]) node.setAttribute(side, "0");
  if (token === "," || token === ";") node.setAttribute("separator", "true");
  return node;
}

function mathsSpace(width) {
  const node = mathsElement("mspace");
  node.setAttribute("width", `${width}em`);
  return node;
}

function mathsCommand(reader, name) {
  if (GREEK.has(name)) return mathsElement("mi", GREEK.get(name));
  if (LARGE.has(name)) return Object.assign(mathsElement("mo", LARGE.get(name)), { limits: name.endsWith("int") ? "" : "display" });
  if (OPERATORS.has(name)) return fixedFence(mathsElement("mo", OPERATORS.get(name)), name);
  if (FUNCTIONS.has(name)) return Object.assign(mathsUpright(mathsElement("mi", name.replace(/^arg(?=m)|^lim(?=[si])/, "$& "))), { limits: LIMITS.has(name) ? "display" : "" });
  if (SPACES.has(name)) return mathsSpace(SPACES.get(name));
  if (ACCENTS.has(name)) return mathsAccent("mover", mathsArgument(reader), ACCENTS.get(name));
  if (UNDERS.has(name)) return mathsAccent("munder", mathsArgument(reader), UNDERS.get(name));
  if (MATHS_TEXTS.has(name)) return mathsElement("mtext", ...signs(mathsRaw(reader)));
  if (FONTS.has(name.replace("*", ""))) return mathsFont(reader, name.replace("*", ""));
  if (SIZES.test(name)) return null;
  if (Object.hasOwn(MATHS_FORMS, name)) return MATHS_FORMS[name](reader);
  if (/^[{}%$#&_]$/.test(name)) return fixedFence(mathsElement("mo", name), name);
  if (name === "|") return fixedFence(mathsElement("mo", "‖"), name);
  const unknown = mathsElement("mtext", ...signs(`\\${name}`));
  unknown.setAttribute("class", "unknown");
  return unknown;
}

const fixedFence = (node, name) => { if (/^(?:l|r)?(?:floor|ceil|angle|brace|brack|vert|Vert)$|^[{}|]$|^[lr]?[vV]ert$|^mid$/.test(name)) node.setAttribute("stretchy", "false"); return node; };
const mathsUpright = (node) => { node.setAttribute("mathvariant", "normal"); return node; };
const mathsFraction = (reader) => mathsElement("mfrac", mathsArgument(reader), mathsArgument(reader));
const mathsClass = (node, name) => { node.setAttribute("class", name); return node; };

const MATHS_FORMS = {
  frac: mathsFraction, dfrac: mathsFraction, tfrac: mathsFraction, cfrac: mathsFraction,
  binom: (reader) => mathsBinomial(reader), dbinom: (reader) => mathsBinomial(reader), tbinom: (reader) => mathsBinomial(reader),
  sqrt(reader) {
    const degree = mathsOption(reader);
    const base = mathsArgument(reader);
    return degree ? mathsElement("mroot", base, mathsGroup(mathsRow({ ...reader, tokens: mathsTokens(degree), at: 0 }, () => false))) : mathsElement("msqrt", base);
  },
  boxed: (reader) => { const inside = mathsArgument(reader); return inside.textContent ? mathsClass(mathsElement("mrow", inside), "boxed") : mathsElement("mtext", "\\boxed{}"); },
  fbox: (reader) => mathsClass(mathsElement("mrow", mathsElement("mtext", ...signs(mathsRaw(reader)))), "boxed"),
  left: (reader) => mathsFenced(reader),
  begin: (reader) => mathsEnvironment(reader),
  stackrel: (reader) => { const above = mathsArgument(reader); return mathsElement("mover", mathsArgument(reader), above); },
  overset: (reader) => { const above = mathsArgument(reader); return mathsElement("mover", mathsArgument(reader), above); },
  underset: (reader) => { const below = mathsArgument(reader); return mathsElement("munder", mathsArgument(reader), below); },
  not: (reader) => mathsElement("mrow", mathsElement("mo", "¬"), mathsArgument(reader)),
  pmod: (reader) => mathsElement("mrow", mathsSpace(0.5), mathsElement("mo", "("), mathsUpright(mathsElement("mi", "mod")), mathsSpace(0.25), mathsArgument(reader), mathsElement("mo", ")")),
  bmod: () => mathsElement("mrow", mathsSpace(0.2), mathsUpright(mathsElement("mi", "mod")), mathsSpace(0.2)),
  mod: () => mathsElement("mrow", mathsSpace(0.5), mathsUpright(mathsElement("mi", "mod")), mathsSpace(0.25)),
  tag: (reader) => mathsElement("mtext", ...signs(`  (${mathsRaw(reader)})`)),
  label: (reader) => { mathsRaw(reader); return null; },
  color: (reader) => { mathsRaw(reader); return null; },
  textcolor: (reader) => { mathsRaw(reader); return mathsArgument(reader); },
  phantom: (reader) => { mathsRaw(reader); return mathsSpace(0.5); },
  hspace: (reader) => { mathsRaw(reader); return mathsSpace(0.5); },
  cancel: (reader) => mathsClass(mathsElement("mrow", mathsArgument(reader)), "cancelled"),
  middle: (reader) => mathsElement("mo", mathsDelimiter(reader)),
};

function mathsBinomial(reader) {
  const inside = mathsFraction(reader);
  inside.setAttribute("linethickness", "0");
  return mathsElement("mrow", mathsElement("mo", "("), inside, mathsElement("mo", ")"));
}

function mathsAccent(tag, base, mark) {
  const node = mathsElement(tag, base, mathsElement("mo", mark));
  node.setAttribute(tag === "mover" ? "accent" : "accentunder", "true");
  return Object.assign(node, { limits: mark === "⏟" || mark === "⏞" ? "always" : "" });
}

function mathsFont(reader, name) {
  const kind = FONTS.get(name);
  skipBlanks(reader);
  const isWord = reader.tokens[reader.at] === "{" && (kind === "upright" || kind === "mono" || kind === "sans");
  if (!isWord) {
    const node = mathsArgument(reader);
    for (const one of node.localName === "mi" ? [node] : node.querySelectorAll("mi")) if (kind === "double" && DOUBLE_STRUCK[one.textContent]) one.textContent = DOUBLE_STRUCK[one.textContent];
    return kind ? mathsClass(mathsElement("mrow", node), `maths-${kind}`) : node;
  }
  const word = mathsRaw(reader);
  const node = /^[\w .,:;-]*$/.test(word) ? mathsUpright(mathsElement("mi", word)) : mathsGroup(mathsRow({ ...reader, tokens: mathsTokens(word), at: 0 }, () => false));
  return mathsClass(mathsElement("mrow", node), `maths-${kind}`);
}

/** The source between braces. */
function mathsRaw(reader) {
  skipBlanks(reader);
  if (reader.tokens[reader.at] !== "{") return reader.tokens[reader.at++] ?? "";
  const start = (reader.at += 1);
  for (let depth = 1; reader.at < reader.tokens.length; reader.at += 1) {
    depth += reader.tokens[reader.at] === "{" ? 1 : reader.tokens[reader.at] === "}" ? -1 : 0;
    if (depth === 0) return reader.tokens.slice(start, reader.at++).join("").replace(/\\([%$#&_{} ])/g, "$1").replace(/~/g, "\u00a0");
  }
  throw new MathsError("a { without its }");
}

function mathsOption(reader) {
  if (reader.tokens[reader.at] !== "[") return "";
  const end = reader.tokens.indexOf("]", reader.at);
  if (end < 0) return "";
  const option = reader.tokens.slice(reader.at + 1, end).join("");
  reader.at = end + 1;
  return option;
}

function mathsDelimiter(reader) {
  skipBlanks(reader);
  const token = reader.tokens[reader.at++];
  if (token === undefined) throw new MathsError("a delimiter is missing");
  if (token === ".") return "";
  if (token === "\\|") return "‖";
  return token.startsWith("\\") ? OPERATORS.get(token.slice(1)) ?? token.slice(1) : token;
}

function mathsFenced(reader) {
  const open = mathsDelimiter(reader);
  const inside = mathsRow(reader, (token) => token === "\\right" || token === "");
  reader.at += 1;
  const close = mathsDelimiter(reader);
  const fence = (text) => { const node = mathsElement("mo", text); node.setAttribute("fence", "true"); node.setAttribute("stretchy", "true"); return node; };
  const isTable = inside.some((one) => typeof one === "string");
  return mathsElement("mrow", open ? fence(open) : null, isTable ? mathsTable(rowsOfCells(inside), "aligned") : inside, close ? fence(close) : null);
}

function mathsEnvironment(reader) {
  const name = mathsRaw(reader).replace("*", "");
  if (!Object.hasOwn(FENCES, name)) throw new MathsError(`\\begin{${name}} is not known`);
  if (/^(?:array|alignedat|subarray)$/.test(name)) mathsRaw(reader);
  const inside = mathsRow(reader, (token) => token === "\\end" || token === "");
  reader.at += 1;
  mathsRaw(reader);
  const [open, close] = [...FENCES[name]];
  const fence = (text) => (text && text !== " " ? mathsElement("mo", text) : null);
  return mathsElement("mrow", fence(open), mathsTable(rowsOfCells(inside), name), fence(close));
}

function rowsOfCells(nodes) {
  const rows = [[[]]];
  for (const one of nodes) {
    if (one === "break") rows.push([[]]);
    else if (one === "cell") rows.at(-1).push([]);
    else rows.at(-1).at(-1).push(one);
  }
  return rows.at(-1).every((cell) => !cell.length) && rows.length > 1 ? rows.slice(0, -1) : rows;
}

function mathsTable(rows, name) {
  const kind = /^align|^split|^eqnarray/.test(name) ? "aligned" : /cases/.test(name) ? "cases" : "matrix";
  return mathsClass(mathsElement("mtable", rows.map((row) => mathsElement("mtr", row.map((cell) => mathsElement("mtd", cell))))), `maths-${kind}`);
}
