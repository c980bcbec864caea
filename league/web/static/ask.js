// How scripts of pages ask the server. Whoever is not signed in any more is sent to where that is done, and back.

// Returns the answer, or null where there is none or it is an error: the mark in the header says that it is away.
export async function ask(address) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.status === 401) signIn();
    return answer.ok ? answer : null;
  } catch {
    return null;
  }
}

// Finds out whether pages are closed to this browser: then, and only then, the form of signing in is shown.
export async function leaveIfSignedOut() {
  try {
    const answer = await fetch("/sign-in", { redirect: "manual" });
    if (answer.ok) signIn();
  } catch {
    // the server is away
  }
}

function signIn() {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}
