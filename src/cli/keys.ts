import { defaultHome, homeFlags, readFlags, UsageError } from "./flags.js";
import { openExistingHome, openHome } from "./openHome.js";

export const usage = `anneal keys create [--entity E] [--name N] | list | revoke ID   [--home PATH]

API keys for others. A key of an entity sees only that entity's models. Works beside a running server.`;

const options = { ...homeFlags, entity: { type: "string" }, name: { type: "string" } } as const;

export async function keys(args: readonly string[]): Promise<number> {
  const { values, positionals } = readFlags(args, options);
  const [verb = "list", id, ...rest] = positionals;
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const known = verb === "create" || verb === "list" ? id === undefined : verb === "revoke" && id !== undefined;
  if (!known || rest.length > 0) throw new UsageError("keys takes create, list, or revoke ID");
  const open = verb === "create" ? openHome : openExistingHome;
  await using engine = await open(values.home ?? defaultHome(), { apiKey: values["api-key"] });
  if (verb === "create") {
    const key = await engine.keys.create({ entity: values.entity, name: values.name });
    process.stderr.write(`key ${key.id} of ${key.entity}; it is shown this once:\n`);
    console.log(key.key);
  } else if (verb === "list") {
    for (const key of await engine.keys.list()) {
      const state = key.revoked_at ? `revoked ${key.revoked_at}` : "valid";
      console.log([key.id, key.entity, `${key.prefix}...`, key.name ?? "-", state].join("\t"));
    }
  } else {
    await engine.keys.revoke(id!);
  }
  return 0;
}
