// What the pages do beyond their forms: skip equal answers, say when no answer came, draw the rate of a round, name cells.
"use strict";

const lastAnswers = {};
let lastSeen = Date.now();

document.addEventListener("htmx:beforeSwap", (event) => {
  const answer = event.detail.xhr;
  const part = event.detail.target;
  if (answer.status !== 200) return;
  const isNew = answer.responseText !== lastAnswers[part.id];
  const isBusy = isInUse(part);
  event.detail.shouldSwap = isNew && !isBusy;
  if (event.detail.shouldSwap) lastAnswers[part.id] = answer.responseText;
  if (part.id !== "live" && document.getElementById("live")) return;
  if (isNew && isBusy) say(`Not renewed while you read it: this is from ${clock()}.`);
  else heard();
});

// A part is not replaced while an operator reads or writes in it: what is open, selected or half written would be lost.
function isInUse(part) {
  const field = document.activeElement;
  if (part.querySelector("details[open]")) return true;
  if (part.contains(field) && field.matches("input, select, textarea")) return true;
  const selection = document.getSelection();
  return !!selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function clock() {
  return new Date(lastSeen).toLocaleTimeString();
}

function say(text) {
  const lost = document.getElementById("lost");
  lost.textContent = text;
  lost.hidden = false;
}

function heard() {
  lastSeen = Date.now();
  document.getElementById("lost").hidden = true;
}

function silent() {
  say(`No answer since ${clock()}. What you see is from then; it is asked for again and again.`);
}

document.addEventListener("htmx:responseError", silent);
document.addEventListener("htmx:sendError", silent);

const seconds = [];
const rates = [];
const limits = [];
let first = null;
let before = null;
let plot = null;

function sample() {
  const counts = document.querySelector("#live [data-elapsed]");
  const chart = document.getElementById("rate");
  if (!counts || !chart || typeof uPlot === "undefined") return;
  const now = { at: Number(counts.dataset.elapsed), objects: Number(counts.dataset.objects) };
  const limit = counts.dataset.allowed ? Number(counts.dataset.allowed) : null;
  if (limit !== null && !chart.dataset.limit) {
    chart.dataset.limit = "allowed";
    plot?.destroy();
    plot = null;
  }
  if (counts.dataset.rate) {
    first ??= now.at;
    seconds.push((now.at - first) / 1000);
    rates.push(Number(counts.dataset.rate));
    limits.push(limit);
    draw(chart);
  } else if (before && now.at - before.at >= 1000) {
    seconds.push(now.at / 1000);
    rates.push(Math.max(0, ((now.objects - before.objects) * 1000) / (now.at - before.at)));
    limits.push(limit);
    before = now;
    draw(chart);
  } else if (!before) {
    before = now;
  }
}

function lines(chart) {
  return chart.dataset.limit ? [seconds, rates, limits] : [seconds, rates];
}

function draw(chart) {
  if (seconds.length < 2) return;
  chart.hidden = false;
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line") } };
  if (!plot) {
    const series = [{ label: "seconds" }, { label: chart.dataset.label, stroke: style.getPropertyValue("--accent"), width: 2 }];
    if (chart.dataset.limit) series.push({ label: chart.dataset.limit, stroke: style.getPropertyValue("--muted"), dash: [6, 4] });
    plot = new uPlot({ width: chart.clientWidth, height: 180, scales: { x: { time: false } }, axes: [axis, axis], series }, lines(chart), chart);
  } else {
    plot.setData(lines(chart));
  }
}

// On a narrow screen a row is a block, and each cell says which column it is of.
function nameCells() {
  for (const table of document.querySelectorAll(".scroll table")) {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    for (const cell of table.querySelectorAll("tbody td")) cell.dataset.column = names[cell.cellIndex];
    table.classList.add("named");
  }
}

document.addEventListener("htmx:afterSettle", () => {
  sample();
  nameCells();
});
document.addEventListener("DOMContentLoaded", () => {
  sample();
  nameCells();
  const chooser = document.querySelector("select#instance");
  if (chooser) chooser.addEventListener("change", () => chooser.form.submit());
});
