// Opens page.html of a directory in Chromium, and checks what a reader sees:
//
//   node smoke/page.mjs CHROMIUM DIRECTORY TITLE
//
// out.page and err.page contain the expected text of standard output and standard error. The script uses the
// browser's own protocol over two pipes, so it needs no package.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [program, directory, title] = process.argv.slice(2);
const page = pathToFileURL(`${directory}/page.html`).href;
const expected = Object.fromEntries(["out", "err"].map((name) => [name, readFileSync(`${directory}/${name}.page`, "utf8")]));

let complaints = 0;
function check(promise, holds, found) {
  console.log(`${holds ? "✓" : "✗"} ${promise}${holds ? "" : `: ${String(found).slice(0, 500)}`}`);
  if (!holds) complaints++;
}

// --- the browser

const browser = spawn(program, ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
  "--disable-extensions", "--disable-component-update", "--disable-background-networking", "--window-size=1000,700",
  `--user-data-dir=${directory}/profile`, "--remote-debugging-pipe", "about:blank"],
  { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
const bound = setTimeout(() => end(new Error("the browser takes more than a minute")), 60000);
let said = "";
browser.stderr.on("data", (data) => { said += data; });
browser.on("error", end);
browser.on("exit", () => end(new Error(`the browser has ended: ${said}`)));

function end(error) {
  clearTimeout(bound);
  browser.removeAllListeners("exit");
  browser.kill("SIGKILL");
  if (error) console.error(String(error));
  process.exit(error || complaints > 0 ? 1 : 0);
}

const waiting = new Map(); // by the number of a call
const seen = []; // events
let calls = 0, sessionId, rest = "";
browser.stdio[4].setEncoding("utf8").on("data", (data) => {
  const messages = (rest + data).split("\0");
  rest = messages.pop();
  for (const message of messages.map((text) => JSON.parse(text))) {
    if (message.id === undefined) { seen.push(message); continue; }
    const { resolve, reject } = waiting.get(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  }
});

function call(method, params = {}) {
  const id = ++calls;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

async function evaluate(expression) {
  const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, returnByValue: true });
  if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
  return result.value;
}

async function until(what, condition) {
  for (const limit = Date.now() + 20000; !(await condition());) {
    if (Date.now() > limit) return check(what, false, "not within 20 s");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  check(what, true);
}

const named = (method) => seen.filter((event) => event.method === method).map((event) => event.params);

// --- what a reader sees

async function open() {
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  ({ sessionId } = await call("Target.attachToTarget", { targetId, flatten: true }));
  for (const domain of ["Page", "Network", "Runtime", "Log"]) await call(`${domain}.enable`);
  await call("Page.navigate", { url: page });
  await until("the page is loaded", () => named("Page.loadEventFired").length > 0);
}

function compareText(name, found) {
  const lines = expected[name].split("\n"), shown = found.split("\n");
  const at = lines.findIndex((line, i) => line !== shown[i]);
  check(`std${name} is as it was printed, ${lines.length - 1} lines`, found === expected[name],
    `line ${at + 1}: ${JSON.stringify(shown[at])}, not ${JSON.stringify(lines[at])}`);
}

async function checkText() {
  const text = (kind) => evaluate(`[...document.querySelectorAll("pre > .${kind}")].map((line) => line.textContent + "\\n").join("")`);
  compareText("out", await text("o"));
  compareText("err", await text("e"));
  const found = await evaluate("document.title");
  check("the title has job, step and end", found === title, found);
}

async function checkHarmless() {
  const found = await evaluate(`JSON.stringify({ owned: window.owned, scripts: document.scripts.length,
    pre: document.querySelectorAll("pre").length, style: document.querySelectorAll("style").length,
    other: document.querySelectorAll("img, iframe, object, form, a, body h1 ~ h1, pre :not(span, em)").length })`);
  check("what was printed is text: no script of it ran, no element came of it",
    found === '{"scripts":0,"pre":1,"style":1,"other":0}', found);
}

// Copies with the keys that a reader uses, which omits what cannot be selected.
async function checkSelection() {
  const styles = await evaluate(`["body", "pre", ".o", ".e"].map((name) => getComputedStyle(document.querySelector(name)).userSelect).join()`);
  check("nothing forbids to select", !styles.includes("none"), styles);
  await call("Input.dispatchKeyEvent", { type: "keyDown", key: "a", code: "KeyA", windowsVirtualKeyCode: 65, modifiers: 2, commands: ["selectAll"] });
  const selected = await evaluate("String(getSelection())");
  const all = expected.out + expected.err;
  check("all of it can be selected, and nothing beside it", selected.includes(all.trimEnd()),
    `${selected.length} characters, with ${all.length} of output`);
}

async function checkStreams() {
  const style = (selector, pseudo, what) => evaluate(`getComputedStyle(document.querySelector("${selector}"), ${pseudo})[${JSON.stringify(what)}]`);
  const colors = [await style(".o", "null", "color"), await style(".e", "null", "color")];
  check("standard error has another colour", colors[0] !== colors[1], colors);
  const marks = [await style(".o", '"::before"', "content"), await style(".e", '"::before"', "content")];
  check("and is named so, with the time", /^"[0-9.]+ out /.test(marks[0]) && /^"[0-9.]+ ERR /.test(marks[1]), marks);
  const red = [await style(".o .b.f1", "null", "color"), await style(".o .b.f1", "null", "fontWeight")];
  check("red and bold text is so", red[0] !== colors[0] && Number(red[1]) >= 700, red);
  const blue = await style(".k4", "null", "backgroundColor");
  check("a background is one", !/rgba\(0, 0, 0, 0\)/.test(blue), blue);
}

async function checkScrolling() {
  const pre = 'document.querySelector("pre")';
  const size = await evaluate(`[${pre}.scrollHeight, ${pre}.clientHeight, ${pre}.scrollWidth, ${pre}.clientWidth]`);
  check("long output is higher than the window, long lines are wider", size[0] > size[1] && size[2] > size[3], size);
  const overflow = await evaluate("document.documentElement.scrollHeight <= innerHeight");
  check("the window itself does not scroll", overflow, overflow);
  await call("Input.dispatchMouseEvent", { type: "mouseWheel", x: 500, y: 400, deltaX: 0, deltaY: 2000 });
  await until("the wheel scrolls it", () => evaluate(`${pre}.scrollTop > 0`));
  await evaluate(`${pre}.focus()`);
  // Again and again, because the smooth scrolling of the wheel may still be under way and would win.
  await until("the key End shows the last line", async () => {
    await call("Input.dispatchKeyEvent", { type: "rawKeyDown", key: "End", code: "End", windowsVirtualKeyCode: 35 });
    return evaluate(`(() => {
      const last = [...document.querySelectorAll("pre > span")].at(-1).getBoundingClientRect();
      return last.height > 0 && last.bottom <= innerHeight; })()`);
  });
}

function checkNetwork() {
  const urls = named("Network.requestWillBeSent").map(({ request }) => request.url);
  check("nothing is loaded but the file itself", urls.includes(page) && urls.every((url) => url === page || url.startsWith("data:")), urls);
  const wrong = [...named("Log.entryAdded").map(({ entry }) => entry.text), ...named("Runtime.exceptionThrown").map((event) => JSON.stringify(event)),
    ...named("Runtime.consoleAPICalled").map((event) => JSON.stringify(event.args))];
  check("the browser has nothing to complain about", wrong.length === 0, wrong.join("; "));
}

try {
  await open();
  await checkText();
  await checkHarmless();
  await checkSelection();
  await checkStreams();
  await checkScrolling();
  checkNetwork();
  end();
} catch (error) {
  end(error);
}
