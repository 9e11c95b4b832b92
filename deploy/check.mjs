// Checks Kubernetes manifests without a cluster:
//
//   node deploy/check.mjs DIRECTORY_WITH_NODE_MODULES MANIFEST…
//
// Each document becomes a TypeScript literal of the type that kubernetes-models generates from
// Kubernetes' OpenAPI, one line of it per line of YAML that matters, so that the compiler finds
// unknown and missing fields, wrong types and unknown values, and reports the line of the manifest.
// agent-sandbox.d.ts has the types of agent-sandbox. Also checks pods, and the pods of Jobs and of
// SandboxTemplates, against the "restricted" Pod Security Standard.
import { copyFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [room, ...manifests] = process.argv.slice(2);
const require = createRequire(resolve(room, "package.json"));
const ts = require("typescript");
const yaml = require("yaml");
const ownTypes = "agent-sandbox.d.ts";
copyFileSync(new URL(ownTypes, import.meta.url), resolve(room, ownTypes));

let complaints = 0;
function complain(file, line, text) {
  console.error(`${file}:${line}: ${text}`);
  complaints++;
}

// The literal's lines, each with the position in the YAML that it comes from.
function literal(document, node, lines, before, after) {
  if (yaml.isAlias(node)) node = node.resolve(document);
  const at = (text, position) => lines.push({ text, position });
  const start = node?.range[0];
  if (yaml.isMap(node)) {
    at(`${before}{`, start);
    for (const { key, value } of node.items) {
      // The key has a line of its own: the compiler points at it.
      at(JSON.stringify(String(key)), key.range[0]);
      literal(document, value, lines, ": ", ",");
    }
    at(`}${after}`, start);
  } else if (yaml.isSeq(node)) {
    at(`${before}[`, start);
    for (const item of node.items) literal(document, item, lines, "", ",");
    at(`]${after}`, start);
  } else {
    at(before + JSON.stringify(node?.toJSON() ?? null) + after, start);
  }
}

const parsed = new Map(); // the sources of the types, which all documents share

function checkSchema(file, document, lineOf) {
  const { apiVersion, kind } = document.toJS() ?? {};
  const types = apiVersion?.startsWith("extensions.agents.x-k8s.io/")
    ? "./agent-sandbox" : `kubernetes-models/${apiVersion}/${kind}`;
  const lines = [];
  literal(document, document.contents, lines, "export const manifest: Kind = ", ";");
  const source = [
    `import type { I${kind} as Kind } from "${types}";`,
    ...lines.map(({ text }) => text),
  ].join("\n");

  const name = resolve(room, "manifest.ts");
  const options = {
    strict: true, noEmit: true, skipLibCheck: true, types: [],
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === name || fileExists(path);
  host.getSourceFile = (path, ...rest) => {
    if (path === name) return ts.createSourceFile(path, source, options.target);
    if (!parsed.has(path)) parsed.set(path, getSourceFile(path, ...rest));
    return parsed.get(path);
  };
  for (const found of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
    const row = found.file?.fileName === name
      ? found.file.getLineAndCharacterOfPosition(found.start).line : 0;
    // Row 0 is the import: there is no such apiVersion or kind.
    const text = ts.flattenDiagnosticMessageText(found.messageText, " ");
    complain(file, lineOf(row ? lines[row - 1].position : 0),
      row ? text : `no kind ${kind} in apiVersion ${apiVersion}: ${text}`);
  }
}

// https://kubernetes.io/docs/concepts/security/pod-security-standards/, as far as these pods go:
// absent fields with a safe default are not required.
function checkRestricted(file, line, pod) {
  const want = (fact, text) => fact || complain(file, line, `not restricted: ${text}`);
  const whole = pod.securityContext ?? {};
  want(!pod.hostNetwork && !pod.hostPID && !pod.hostIPC, "shares a namespace with the host");
  for (const volume of pod.volumes ?? []) {
    want(volume.emptyDir || volume.configMap || volume.secret || volume.projected
      || volume.persistentVolumeClaim || volume.ephemeral || volume.image, `volume ${volume.name}`);
  }
  for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
    const own = { ...whole, ...container.securityContext };
    const { drop = [], add = [] } = own.capabilities ?? {};
    const of = `of container ${container.name}`;
    want(own.runAsNonRoot === true && own.runAsUser !== 0, `runAsNonRoot ${of}`);
    want(own.allowPrivilegeEscalation === false && !own.privileged, `privileges ${of}`);
    want(drop.includes("ALL") && add.length === 0, `capabilities ${of}`);
    want(own.seccompProfile?.type === "RuntimeDefault", `seccompProfile ${of}`);
    want(own.readOnlyRootFilesystem !== undefined, `readOnlyRootFilesystem ${of} (ours: true or false)`);
  }
  want(pod.automountServiceAccountToken === false, "automountServiceAccountToken (ours, beyond the standard)");
}

// The file that REDIS_CACERT names must be one of a volume, and so must the program.
function checkPaths(file, line, pod) {
  for (const { name, command, env, volumeMounts } of pod.containers) {
    const authority = env?.find((variable) => variable.name === "REDIS_CACERT")?.value;
    for (const path of [command?.[0], authority]) {
      const mounted = volumeMounts?.some((mount) => path?.startsWith(`${mount.mountPath}/`)
        && pod.volumes?.some((volume) => volume.name === mount.name));
      if (path && !mounted) complain(file, line, `${path} of container ${name} is in no volume`);
    }
  }
}

for (const file of manifests) {
  const counter = new yaml.LineCounter();
  const lineOf = (position) => counter.linePos(position ?? 0).line;
  const documents = yaml.parseAllDocuments(readFileSync(file, "utf8"), { lineCounter: counter });
  if (!documents.length) complain(file, 1, "holds no document");
  for (const document of documents) {
    const unreadable = [...document.errors, ...document.warnings];
    for (const error of unreadable) complain(file, lineOf(error.pos[0]), error.message);
    if (unreadable.length) continue;
    const before = complaints;
    checkSchema(file, document, lineOf);
    if (complaints > before) continue;
    const { kind, spec } = document.toJS();
    const pod = { Pod: spec, Job: spec.template?.spec, SandboxTemplate: spec.podTemplate?.spec }[kind];
    if (!pod) continue;
    const line = lineOf(document.contents.range[0]);
    checkRestricted(file, line, pod);
    checkPaths(file, line, pod);
  }
}
if (complaints) process.exit(1);
console.log(`${manifests.length} manifests, nothing to complain about`);
