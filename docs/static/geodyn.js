// Formulas are set after the browser has gone to the anchor of the address, and move it: go there again.
window.addEventListener("load", () => {
  const there = () => location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  window.MathJax?.startup?.promise?.then(there);
});
