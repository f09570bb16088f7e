import { NotFoundError } from "../errors.js";
import type { ApiKey } from "../types/models.js";
import { type CommandGroup, defineCommand } from "./command.js";
import { homeFlags } from "./engineFlags.js";
import { text } from "./flags.js";
import { json, printListing } from "./listing.js";
import { openExistingHome } from "./openHome.js";

const beside = "A key of an entity sees only that entity's models. Works beside a running server.";

const list = defineCommand({
  name: "keys list",
  summary: "show the keys there are",
  details: `Shows the keys that were made, valid or revoked. ${beside}`,
  flags: { json, ...homeFlags },
  async run(values) {
    await using engine = await openExistingHome(values);
    const columns = [
      { title: "ID", cell: (key: ApiKey) => key.id },
      { title: "ENTITY", cell: (key: ApiKey) => key.entity },
      { title: "KEY", cell: (key: ApiKey) => `${key.prefix}...` },
      { title: "NAME", cell: (key: ApiKey) => key.name },
      { title: "STATE", cell: (key: ApiKey) => (key.revoked_at ? `revoked ${key.revoked_at}` : "valid") },
    ];
    printListing(await engine.keys.list(), columns, values.json);
    return 0;
  },
});

const create = defineCommand({
  name: "keys create",
  summary: "make a key for someone",
  details: `Makes a key, which is shown this once. ${beside}`,
  flags: {
    ...homeFlags,
    entity: text("E", "whose models the key sees (default: the owner's)"),
    name: text("N", "what it is called in lists"),
  },
  async run(values) {
    // --entity is the key's, not the owner's.
    await using engine = await openExistingHome({ home: values.home, "api-key": values["api-key"] });
    const key = await engine.keys.create({ entity: values.entity, name: values.name });
    process.stderr.write(`key ${key.id} of ${key.entity}; it is shown this once:\n`);
    console.log(key.key);
    return 0;
  },
});

const revoke = defineCommand({
  name: "keys revoke",
  arguments: ["ID"],
  summary: "end a key's validity",
  flags: homeFlags,
  async run(values, [id]) {
    await using engine = await openExistingHome(values);
    const made = await engine.keys.list();
    if (!made.some((key) => key.id === id)) {
      const named = made.filter(({ name }) => name === id).map((key) => key.id);
      throw new NotFoundError(`there is no key with the id ${id}`, {
        code: "key_not_found",
        param: "key_id",
        hint: named.length > 0 ? `that is the name of ${named.join(", ")}` : "anneal keys list shows the ids",
      });
    }
    await engine.keys.revoke(id!);
    return 0;
  },
});

export const keys: CommandGroup = {
  name: "keys",
  summary: "make and revoke API keys",
  commands: [list, create, revoke],
};
