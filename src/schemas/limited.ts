// Lists, maps and free values of requests: their length or depth is looked at before what they hold, and looking stops after a handful
// of faults.

import * as z from "zod";
import { ZodArray, ZodObject, ZodRecord } from "zod";
import { $constructor, util } from "zod/v4/core";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { setField } from "../json.js";
import { DEPTH_MESSAGE, isDeep } from "../valueDepth.js";

/** Faults that an error lists: nobody reads more of them, and a large body has millions. */
export const MAX_ISSUES = 16;

/** Fields of one object, unknown ones included. */
const MAX_FIELDS = 4096;

type Payload = z.core.ParsePayload;

interface ListDef extends z.core.$ZodArrayDef {
  max: number;
}

interface MapDef extends z.core.$ZodRecordDef {
  max: number;
}

const LimitedList = $constructor("LimitedList", (inst: z.ZodArray & { _zod: { def: ListDef } }, def: ListDef) => {
  ZodArray.init(inst, def);
  const parseWhole = inst._zod.parse;
  inst._zod.parse = (payload, ctx) => {
    const input = payload.value as unknown;
    if (!Array.isArray(input) || input.length > def.max) return parseWhole(payload, ctx);
    const values: unknown[] = [];
    payload.value = values;
    return inTurns(input.length, payload, ctx, (i) => {
      const result = def.element._zod.run({ value: input[i], issues: [] }, ctx);
      return whenDone(result, ({ value, issues }) => {
        values[i] = value;
        addIssues(payload, i, issues);
      });
    });
  };
});

const LimitedMap = $constructor("LimitedMap", (inst: z.ZodRecord & { _zod: { def: MapDef } }, def: MapDef) => {
  ZodRecord.init(inst, def);
  const parseWhole = inst._zod.parse;
  inst._zod.parse = (payload, ctx) => {
    const input = payload.value as unknown;
    if (!util.isPlainObject(input)) return parseWhole(payload, ctx);
    const keys = Object.keys(input);
    if (keys.length > def.max) {
      payload.issues.push(tooManyEntries(def.max, input, inst));
      return payload;
    }
    const values: Record<string, unknown> = {};
    payload.value = values;
    return inTurns(keys.length, payload, ctx, (i) => {
      const key = keys[i]!;
      const result = def.valueType._zod.run({ value: input[key], issues: [] }, ctx);
      return whenDone(result, ({ value, issues }) => {
        setField(values, key, value);
        addIssues(payload, key, issues);
      });
    });
  };
});

const LimitedObject = $constructor("LimitedObject", (inst: z.ZodObject, def: z.core.$ZodObjectDef) => {
  ZodObject.init(inst, def);
  const parseWhole = inst._zod.parse;
  inst._zod.parse = (payload, ctx) => {
    const input = payload.value as unknown;
    if (util.isPlainObject(input) && Object.keys(input).length > MAX_FIELDS) {
      payload.issues.push(tooManyEntries(MAX_FIELDS, input, inst));
      return payload;
    }
    return parseWhole(payload, ctx);
  };
});

function tooManyEntries(maximum: number, input: unknown, inst: z.core.$ZodType): z.core.$ZodRawIssue {
  const message = `Too big: expected at most ${maximum} entries`;
  return { code: "too_big", origin: "map", maximum, inclusive: true, message, input, inst };
}

/** Anything that does not nest too deep for what is done with it. */
export const anyValue = z.unknown().refine((value) => !isDeep(value), DEPTH_MESSAGE);

/** At most `max` elements. */
export function list<T extends z.ZodType>(element: T, max: number): z.ZodArray<T> {
  return new LimitedList({ type: "array", element, max }).max(max) as z.ZodArray as z.ZodArray<T>;
}

/** An object of any names, at most `max` of them. */
export function map<T extends z.ZodType>(valueType: T, max: number): z.ZodRecord<z.ZodString, T> {
  const def: MapDef = { type: "record", keyType: z.string(), valueType, max };
  return new LimitedMap(def) as z.ZodRecord as z.ZodRecord<z.ZodString, T>;
}

/** An object that may have fields beyond those of its shape, as zod's own, but at most MAX_FIELDS. */
export function looseObject<S extends z.ZodRawShape>(shape: S): z.ZodObject<S, z.core.$loose> {
  const def = { type: "object", shape, catchall: anyValue } as const;
  return new LimitedObject(def) as z.ZodObject as z.ZodObject<S, z.core.$loose>;
}

/**
 * Parses entries 0 to `count` until there are more issues than are listed; in a validation that may wait, other work has its turn in
 * between.
 */
function inTurns(
  count: number,
  payload: Payload,
  ctx: z.core.ParseContextInternal,
  parse: (i: number) => void | Promise<void>,
): z.core.util.MaybeAsync<Payload> {
  const goOn = (from: number): z.core.util.MaybeAsync<Payload> => {
    for (let i = from; i < count && payload.issues.length <= MAX_ISSUES; i++) {
      const pending = parse(i);
      if (pending !== undefined) return pending.then(() => goOn(i + 1));
      if (ctx.async && i % 32 === 31 && shouldYield()) return yieldToEventLoop().then(() => goOn(i + 1));
    }
    return payload;
  };
  return goOn(0);
}

function whenDone(result: z.core.util.MaybeAsync<Payload>, use: (result: Payload) => void): void | Promise<void> {
  if (result instanceof Promise) return result.then(use);
  use(result);
}

function addIssues(payload: Payload, key: PropertyKey, issues: Payload["issues"]): void {
  if (issues.length > 0) payload.issues.push(...util.prefixIssues(key, issues));
}
