// Dialogs, copying, forms that send themselves, and where answers to failed requests are shown.
document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-opens], [data-closes], [data-copy]");
  if (!target) return;
  if (target.dataset.opens) document.getElementById(target.dataset.opens).showModal();
  if ("closes" in target.dataset) target.closest("dialog").close();
  if (target.dataset.copy) await copy(target);
});

document.addEventListener("change", (event) => {
  if ("submitOnChange" in event.target.dataset) event.target.form.requestSubmit();
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.xhr.status < 400) return;
  detail.shouldSwap = true;
  detail.isError = false;
  if (!detail.requestConfig.elt.closest("dialog")) detail.target = document.getElementById("notice");
});

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
