"use strict";
// A list of any length in a box: only what can be seen has nodes, and only pages that were looked at are fetched.
class ListWindow {
  /** `fetchPage(start)` gives {total, items}; `draw(item, index)` a node; all items are `height` pixels high. */
  constructor(box, { height, count, fetchPage, draw, onTrouble }) {
    Object.assign(this, { box, height, count, fetchPage, draw, onTrouble, total: 0, pages: new Map(), asked: new Map(), age: 0, top: 0, nodes: new Map() });
    this.sheet = make("div", "sheet");
    box.replaceChildren(this.sheet);
    this.onScroll = () => { if (box.clientHeight) this.top = box.scrollTop; this.show(); };
    box.addEventListener("scroll", this.onScroll, { passive: true });
    // A box that was hidden has lost its place: on a narrow screen the list makes room for a rollout.
    this.sizes = new ResizeObserver(() => { if (box.clientHeight) { box.scrollTop = this.top; this.show(); } });
    this.sizes.observe(box);
  }

  close() {
    this.box.removeEventListener("scroll", this.onScroll);
    this.sizes.disconnect();
    this.age += 1;
  }

  /** Draws everything again; with `keep` the box stays where it is. */
  async load({ keep = false } = {}) {
    this.age += 1;
    this.asked.clear();
    const first = keep ? this.firstShown() : 0;
    const reply = await this.page(Math.floor(first / this.count), new Map());
    if (!reply) return false;
    this.nodes.clear();
    this.sheet.replaceChildren();
    if (!keep) this.box.scrollTop = this.top = 0;
    this.sheet.style.setProperty("height", `${this.total * this.height}px`);
    this.show();
    return true;
  }

  firstShown() {
    return Math.max(0, Math.floor(this.top / this.height));
  }

  at(index) {
    return this.pages.get(Math.floor(index / this.count))?.[index % this.count];
  }

  /** The item, fetched where it is not there yet. */
  async get(index) {
    if (index < 0 || index >= this.total) return undefined;
    if (!this.at(index)) await this.page(Math.floor(index / this.count));
    return this.at(index);
  }

  /** Where an item is among those that were fetched, or -1. */
  find(test) {
    for (const [number, items] of this.pages) {
      const index = items.findIndex(test);
      if (index >= 0) return number * this.count + index;
    }
    return -1;
  }

  /** `pages`: what was fetched so far is let go as soon as the reply is there. */
  page(number, pages = null) {
    if (this.asked.has(number)) return this.asked.get(number);
    const age = this.age;
    const asked = this.fetchPage(number * this.count).then((reply) => {
      if (age !== this.age) return null;
      if (pages) this.pages = pages;
      this.pages.set(number, reply.items);
      this.total = reply.total;
      return reply;
    }).catch((error) => {
      if (age === this.age) this.onTrouble(error);
      return null;
    }).finally(() => { if (age === this.age) this.asked.delete(number); });
    this.asked.set(number, asked);
    return asked;
  }

  show() {
    const first = Math.max(0, this.firstShown() - 8), last = Math.min(this.total, Math.ceil((this.top + this.box.clientHeight) / this.height) + 8);
    for (const [index, node] of this.nodes) if (index < first || index >= last) { node.remove(); this.nodes.delete(index); }
    for (let index = first; index < last; index += 1) if (this.at(index) && !this.nodes.has(index)) this.place(index);
    for (let number = Math.floor(first / this.count); number * this.count < last; number += 1) {
      if (!this.pages.has(number) && !this.asked.has(number)) this.page(number).then((reply) => { if (reply) this.show(); });
    }
  }

  place(index) {
    const node = this.draw(this.at(index), index);
    node.style.setProperty("top", `${index * this.height}px`);
    node.style.setProperty("height", `${this.height}px`);
    node.dataset.index = index;
    this.nodes.set(index, node);
    const after = [...this.sheet.children].find((one) => Number(one.dataset.index) > index);
    this.sheet.insertBefore(node, after || null);
  }

  scrollTo(index) {
    const top = index * this.height, bottom = top + this.height;
    if (top < this.top) this.move(top);
    else if (bottom > this.top + this.box.clientHeight) this.move(bottom - this.box.clientHeight);
  }

  center(index) {
    this.move(Math.max(0, index * this.height - this.box.clientHeight / 2));
  }

  move(top) {
    this.top = this.box.scrollTop = top;
    if (this.box.clientHeight) this.top = this.box.scrollTop;
    this.show();
  }
}
