// The page follows its store: the server says by events what there is, the page asks for it and shows it where one looks.
const AGAIN_MS = 5000;
let pressed = false; // who drags a chart is not to lose it from under the hand

/** Show in a corner whether the page is up to date, and what the search does. */
function say(text, more, kind) {
  const note = document.getElementById("live");
  note.className = kind;
  fill(note, [el("span", { role: "status", text }), el("span", { text: more })]);
}

const DOING = { new: "nothing has begun yet", running: "the search is running", stopped: "the search has stopped", killed: "the search was killed; the same command goes on" };

function doing(pulse) {
  if (pulse.problem) return [pulse.problem, "", "bad"];
  return [DOING[pulse.state] || "reading the store", pulse.seconds ? duration(pulse.seconds) : "", pulse.state === "running" ? "good" : ""];
}

/** Hear every event of the server, and go on hearing when it was away; a page that nobody sees does not listen. */
function follow(heard) {
  let source = null, waiting = 0;
  const stop = () => {
    clearTimeout(waiting);
    if (source) source.close();
    source = null;
  };
  const listen = () => {
    stop();
    source = new EventSource(document.body.dataset.events);
    source.addEventListener("message", (event) => heard(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      say("no connection; trying again", "", "bad");
      if (source.readyState === EventSource.CLOSED) waiting = setTimeout(listen, AGAIN_MS); // refused: it does not try again itself
    });
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  for (const name of ["pointerdown", "pointerup", "pointercancel"]) window.addEventListener(name, () => { pressed = name === "pointerdown"; }, true);
  window.addEventListener("pointermove", (event) => { if (!event.buttons) pressed = false; }, true); // let go of outside
  if (!document.hidden) listen();
}

const released = () => new Promise((done) => {
  const look = () => (pressed ? setTimeout(look, 100) : done());
  look();
});
