// Before Node.js 22 `fs` has no globSync, which the conformance suite imports and does not need here.
import { register } from 'node:module';

const fs = `data:text/javascript,export*from"node:fs";export{default}from"node:fs";export const globSync=undefined`;
const hook = `export const resolve = (name, context, next) =>
  name === 'fs' ? { url: ${JSON.stringify(fs)}, shortCircuit: true } : next(name, context);`;
if (Number(process.versions.node.split('.')[0]) < 22) register(`data:text/javascript,${encodeURIComponent(hook)}`);
