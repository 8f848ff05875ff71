"use strict";
// Why somebody is asked again, and back to where they were: a redirect keeps what is behind the #.
const WHY = {
  wrong: "✕ That is not a token of this router.",
  expired: "▲ You were logged out: the router was restarted, or it is long ago.",
  used: "▲ That address was used before, or is not of this router.",
};
const why = WHY[location.search.slice(1).split(/[=&]/)[0]];
if (why) {
  document.getElementById("why").textContent = why;
  document.getElementById("why").hidden = false;
}
document.querySelector("form").action = "/login" + location.hash;
