// Which keywords say something about a value.

/** Keywords of draft 3 that later ones dropped. */
export const REFUSED = ["extends", "disallow", "divisibleBy"];

/** Keywords that say something about a value; all others are annotations. */
export const ASSERTIONS: ReadonlySet<string> = new Set([
  ...REFUSED,
  ..."$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else dependentRequired dependentSchemas dependencies".split(
    " ",
  ),
  ..."type nullable const enum minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split(" "),
  ..."minLength maxLength pattern format items prefixItems additionalItems minItems maxItems uniqueItems".split(" "),
  ..."contentEncoding contentMediaType contains minContains maxContains unevaluatedItems unevaluatedProperties".split(
    " ",
  ),
  ..."properties patternProperties additionalProperties propertyNames required minProperties maxProperties".split(" "),
  "x-property-order",
]);
