// Questions to the server: one answer, or a stream of events with one line of JSON each.

export class Problem extends Error {}

const GONE = "The server does not answer. Is the command that opened this page still running?";

async function send(name, body, signal) {
  let answer;
  try {
    answer = body === undefined
      ? await fetch(`api/${name}`, { signal })
      : await fetch(`api/${name}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem(GONE);
  }
  if (!answer.ok) throw new Problem((await answer.json().catch(() => ({}))).problem ?? GONE);
  return answer;
}

export async function ask(name, body, signal) {
  const data = await (await send(name, body, signal)).json();
  if (data.problem) throw new Problem(data.problem);
  return data;
}

export async function* stream(name, body, signal) {
  const reader = (await send(name, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new Problem(GONE);
    }
    if (piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const event = JSON.parse(line);
      if (event.problem) throw new Problem(event.problem);
      yield event;
    }
  }
}

// Of several questions for the same place of the page, only the answer of the last one is used: the others give null.
export function latest() {
  let current = null;
  return async (name, body) => {
    current?.abort();
    const mine = (current = new AbortController());
    try {
      const data = await ask(name, body, mine.signal);
      return mine.signal.aborted ? null : data;
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
  };
}
