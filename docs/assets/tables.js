/* The theme puts each table into a region that scrolls. With a tab index, the arrow keys scroll it too. */
function focusable() {
  for (const region of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) region.tabIndex = 0;
}
new MutationObserver(focusable).observe(document.body, { childList: true, subtree: true });
focusable();
