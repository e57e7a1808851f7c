// What the pages do beyond their forms: skip equal answers, say when no answer came, and draw the rate of a round.
"use strict";

let lastAnswer = "";
let lastSeen = Date.now();

document.addEventListener("htmx:beforeSwap", (event) => {
  const answer = event.detail.xhr;
  if (answer.status === 200) {
    event.detail.shouldSwap = answer.responseText !== lastAnswer && !isInUse();
    if (event.detail.shouldSwap) lastAnswer = answer.responseText;
  }
});

// A part is not replaced while somebody reads it: an open detail or a selected text would be lost.
function isInUse() {
  const live = document.getElementById("live");
  if (!live) return false;
  if (live.querySelector("details[open]") || live.contains(document.activeElement)) return true;
  const selection = document.getSelection();
  return !!selection && !selection.isCollapsed && live.contains(selection.anchorNode);
}

function heard() {
  lastSeen = Date.now();
  document.getElementById("lost").hidden = true;
}

function silent() {
  const lost = document.getElementById("lost");
  const since = new Date(lastSeen).toLocaleTimeString();
  lost.textContent = `No answer since ${since}. What you see is from then; it is asked for again every two seconds.`;
  lost.hidden = false;
}

document.addEventListener("htmx:afterOnLoad", (event) => (event.detail.xhr.status < 400 ? heard() : silent()));
document.addEventListener("htmx:responseError", silent);
document.addEventListener("htmx:sendError", silent);

const seconds = [];
const rates = [];
let before = null;
let plot = null;

function sample() {
  const counts = document.querySelector("#live [data-objects]");
  const chart = document.getElementById("rate");
  if (!counts || !chart || typeof uPlot === "undefined") return;
  const now = { at: Number(counts.dataset.elapsed), objects: Number(counts.dataset.objects) };
  if (before && now.at - before.at >= 1000) {
    seconds.push(now.at / 1000);
    rates.push(Math.max(0, ((now.objects - before.objects) * 1000) / (now.at - before.at)));
    before = now;
    draw(chart);
  } else if (!before) {
    before = now;
  }
}

function draw(chart) {
  if (seconds.length < 2) return;
  chart.hidden = false;
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line") } };
  if (!plot) {
    const series = [{ label: "seconds" }, { label: "objects per second", stroke: style.getPropertyValue("--accent"), width: 2 }];
    plot = new uPlot({ width: chart.clientWidth, height: 180, scales: { x: { time: false } }, axes: [axis, axis], series }, [seconds, rates], chart);
  } else {
    plot.setData([seconds, rates]);
  }
}

document.addEventListener("htmx:afterSettle", sample);
document.addEventListener("DOMContentLoaded", () => {
  sample();
  const chooser = document.querySelector("select#instance");
  if (chooser) chooser.addEventListener("change", () => chooser.form.submit());
});
