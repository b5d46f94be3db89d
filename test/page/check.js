// What a reader would frown at, found in the page itself: texts that overlap or cross a box, what is cut off, what lies
// outside its drawing, a page wider than its window. Told to the page that holds this one in a frame.
(() => {
  const faults = [];
  const name = (element) => `<${element.localName}> '${element.textContent.trim().replace(/\s+/g, " ").slice(0, 60)}'`;
  const isSeen = (rect) => rect.width > 0.5 && rect.height > 0.5;
  const within = (inner, outer, slack) => inner.left >= outer.left - slack && inner.right <= outer.right + slack &&
    inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
  // Lines of text stand closer than their boxes say: a sixth of the height at either end is empty.
  const ink = (rect) => ({left: rect.left, right: rect.right, top: rect.top + rect.height / 6, bottom: rect.bottom - rect.height / 6});
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;

  function texts() {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      if (!node.data.trim() || parent.closest("style, script, title, details:not([open]) > :not(summary)")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) if (isSeen(rect)) found.push({element: parent, rect, ink: ink(rect)});
    }
    return found.sort((a, b) => a.rect.top - b.rect.top);
  }

  function overlaps(all) {
    for (let i = 0; i < all.length; ++i)
      for (let j = i + 1; j < all.length && all[j].rect.top < all[i].rect.bottom; ++j)
        if (all[i].element !== all[j].element && meet(all[i].ink, all[j].ink)) faults.push(`${name(all[i].element)} overlaps ${name(all[j].element)}`);
  }

  function drawings() {
    for (const svg of document.querySelectorAll("svg")) {
      const area = svg.getBoundingClientRect();
      for (const part of svg.querySelectorAll("text, rect, line, path"))
        if (!within(part.getBoundingClientRect(), area, 1)) faults.push(`${name(part)} lies outside its drawing`);
      for (const box of svg.querySelectorAll("rect.box")) {
        const edge = box.getBoundingClientRect();
        for (const text of svg.querySelectorAll("text")) {
          const rect = text.getBoundingClientRect();
          if (text.parentNode === box.parentNode ? !within(rect, edge, 0) : meet(ink(rect), edge)) faults.push(`${name(text)} crosses the edge of a box`);
        }
        for (const path of svg.querySelectorAll("path.edge"))
          for (let at = 8; at < path.getTotalLength() - 12; at += 4) {
            const point = path.getPointAtLength(at), x = point.x + area.left, y = point.y + area.top;
            if (x > edge.left + 1 && x < edge.right - 1 && y > edge.top + 1 && y < edge.bottom - 1) {
              faults.push(`the edge ${name(path.parentNode)} runs through the box ${name(box.parentNode)}`);
              break;
            }
          }
      }
    }
  }

  function cuts() {
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
    for (const element of document.body.querySelectorAll("*")) {
      const style = getComputedStyle(element);
      const scrolls = ["auto", "scroll"].includes(style.overflowX) || style.display.startsWith("inline") || element.closest("svg");
      if (!scrolls && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1) faults.push(`${name(element)} is cut off, or hangs out: ${element.scrollWidth} in ${element.clientWidth}`);
      if (style.textOverflow === "ellipsis" && element.scrollWidth > element.clientWidth) faults.push(`${name(element)} is shortened`);
    }
    for (const text of document.querySelectorAll("text, td, th, p, span"))
      if (/\.\.\.$|…$/.test(text.textContent.trim()) && !text.children.length && text.closest("svg")) faults.push(`${name(text)} is shortened`);
  }

  addEventListener("load", () => {
    const all = texts();
    if (all.length < 20) faults.push(`only ${all.length} texts are shown`);
    overlaps(all);
    drawings();
    cuts();
    parent.postMessage({faults: faults.slice(0, 12), count: faults.length, texts: all.length}, "*");
  });
})();
