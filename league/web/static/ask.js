// Requests to the server. If the session has ended, the browser is sent to the sign-in page, and back afterwards.

// Returns the response, or null if there is none or it is an error: the header shows that the server is unreachable.
export async function ask(address) {
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
