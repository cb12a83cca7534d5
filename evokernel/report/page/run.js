// One run, live: whenever there is another document, it is fetched and takes the place of the last one.
let newest = null, shownVersion = null, fetching = false;

async function catchUp() {
  if (fetching) return;
  fetching = true;
  try {
    while (newest && newest.version && newest.version !== shownVersion) {
      const answer = await fetch(document.body.dataset.document, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      const version = answer.headers.get("X-Version"), fresh = await answer.json();
      await released();
      if (data && data.version !== fresh.version) return location.reload(); // another release serves: its page goes with it
      renew(fresh);
      document.title = `${data.title} · evokernel`;
      shownVersion = version;
      Object.assign(document.documentElement.dataset, { ready: "yes", shown: version });
    }
  } catch (error) {
    say(`the data did not come (${error.message}); trying again`, "", "bad");
    setTimeout(catchUp, AGAIN_MS);
  } finally {
    fetching = false;
  }
}

async function asked(kind, name) {
  const answer = await fetch(`${document.body.dataset[kind]}/${name}`, { cache: "no-store", credentials: "same-origin" });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

Object.assign(candidateFacts, {
  of: (i) => asked("candidate", all.id[i]),
  search: async (text) => new Set((await asked("search", [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join(""))).ids),
});

follow((pulse) => {
  newest = pulse;
  say(...doing(pulse));
  if (!data) {
    const [title, text] = pulse.problem ? ["Nothing to show yet", `${pulse.problem}. This page goes on looking.`] : ["Reading the store", "The first look at a large one takes a while."];
    fill(document.getElementById("page"), [section("waiting", title, text)]);
  }
  catchUp();
});
