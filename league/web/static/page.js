// Dialogs, copy buttons, forms that are submitted on change, and errors of failed requests. On narrow screens the
// navigation is scrolled to the current page.
const current = document.querySelector("nav [aria-current=page]");
if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - 40;

document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-opens], [data-closes], [data-copy]");
  if (!target) return;
  if (target.dataset.opens) open(document.getElementById(target.dataset.opens), target.dataset);
  if ("closes" in target.dataset) target.closest("dialog").close();
  if (target.dataset.copy) await copy(target);
});

// Opens a dialog. One that rows share gets the path and the subject of its row.
function open(dialog, { path, subject }) {
  if (path) {
    const form = dialog.querySelector("form");
    form.action = path;
    form.setAttribute("hx-post", path);
    window.htmx.process(form); // it has read the old path
    dialog.querySelector(".subject").textContent = subject;
    dialog.querySelector(".refused").replaceChildren();
  }
  dialog.showModal();
}

document.addEventListener("change", (event) => {
  if ("submitOnChange" in event.target.dataset) event.target.form.requestSubmit();
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.xhr.status < 400) return;
  detail.shouldSwap = true;
  detail.isError = false;
  detail.swapOverride = "innerHTML"; // whatever the answer was meant to replace
  detail.target = placeOfErrors(detail.requestConfig.elt);
  if (!detail.xhr.getResponseHeader("Content-Type")?.startsWith("text/html")) detail.serverResponse = worded(detail.xhr);
});

document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.verb !== "get") return;
  for (const [name, value] of [...detail.formData]) if (value === "") detail.formData.delete(name); // a short address
});

document.addEventListener("htmx:sendError", ({ detail }) => {
  placeOfErrors(detail.requestConfig.elt).textContent = "The server does not respond. Try again later.";
  away = true;
});

document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (detail.xhr.status < 400 && (away || detail.requestConfig.elt === failed)) forget();
});

document.addEventListener("league:return", () => {
  if (away) forget();
});

let failed = null; // the element whose request failed last
let away = false; // whether that was for want of an answer

function forget() {
  document.getElementById("notice").replaceChildren();
  away = false;
}

function placeOfErrors(element) {
  failed = element;
  away = false;
  return element.closest("dialog")?.querySelector(".refused") ?? document.getElementById("notice");
}

// The text of a problem document, which a busy server returns instead of a page.
function worded({ status, responseText }) {
  const line = document.createElement("p");
  line.className = "error-line";
  try {
    line.textContent = JSON.parse(responseText).detail;
  } catch {
    line.textContent = `The server returned status ${status}.`;
  }
  return line.outerHTML;
}

async function copy(button) {
  const label = button.firstChild;
  const before = label.data;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    label.data = "Copied";
  } catch {
    label.data = "Not copied"; // browsers refuse it beyond loopback without TLS
  }
  setTimeout(() => (label.data = before), 1500);
}
