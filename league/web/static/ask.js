// Requests to the server. If the session has ended, the browser is sent to the sign-in page, and back afterwards.

// A static copy of a page holds the data of its scripts, and nothing newer.
export const COPIED = "copied" in document.documentElement.dataset;

function stored(address) {
  const { pathname, searchParams } = new URL(address, "http://copy");
  const found = [...document.querySelectorAll("script[data-address]")].find((each) => each.dataset.address === pathname);
  return found && !Number(searchParams.get("after")) ? new Response(found.textContent) : null;
}

// Returns the response, or null if there is none or it is an error: the header shows that the server is unreachable.
export async function ask(address) {
  if (COPIED) return stored(address);
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.status === 401) signIn();
    return answer.ok ? answer : null;
  } catch {
    return null;
  }
}

// Checks whether this browser has to sign in, and shows the sign-in form only then.
export async function leaveIfSignedOut() {
  try {
    const answer = await fetch("/sign-in", { redirect: "manual" });
    if (answer.ok) signIn();
  } catch {
    // the server is unreachable
  }
}

function signIn() {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}
