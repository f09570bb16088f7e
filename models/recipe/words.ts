const list = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Words the world knows to belong together; also the ordinary words of the letter skills. */
export const categories = {
  animal: list(`cat dog horse mouse tiger lion bear wolf fox rabbit sheep goat cow pig duck goose eagle hawk owl robin
    snake frog toad turtle whale shark seal otter beaver badger camel zebra giraffe monkey donkey deer moose bat rat
    crab squid ant bee wasp spider moth beetle lizard panda koala hamster parrot pigeon raven swan`),
  fruit:
    list(`apple pear plum peach cherry lemon lime orange banana grape melon mango kiwi fig date papaya apricot olive
    berry coconut`),
  color: list(`red green blue yellow purple brown black white gray pink violet silver gold teal beige crimson`),
  tool: list(`hammer saw drill wrench pliers ladder shovel rake axe chisel file clamp needle scissors brush broom`),
  vehicle: list(`car bus train truck bike boat ship plane tram van taxi wagon rocket sled canoe scooter ferry tractor`),
  food: list(`bread cheese butter rice pasta soup salad pizza cake cookie honey sugar salt pepper egg meat fish bean
    potato carrot onion tomato garlic corn noodle yogurt`),
  garment: list(`shirt coat hat scarf glove sock shoe boot belt dress skirt jacket sweater pants tie vest apron`),
  instrument: list(`piano violin guitar flute drum trumpet harp cello banjo organ tuba oboe`),
} as const;

export type Category = keyof typeof categories;
export const categoryNames = Object.keys(categories) as Category[];

const others =
  list(`planet garden window table chair lamp door floor wall roof house tower bridge river lake ocean island
  mountain valley forest desert meadow cloud storm thunder snow rain wind summer winter spring autumn morning evening night
  day week month year hour minute second moon sun star comet earth stone rock sand mud iron copper silk cotton paper pencil
  book letter word page story poem song music dance game ball kite puzzle toy doll robot engine motor wheel gear spring
  bottle glass cup plate bowl spoon fork knife pot pan oven stove clock watch mirror pillow blanket carpet basket bucket
  box bag rope chain lock key coin money market shop school office kitchen bedroom library museum theater station airport
  harbor castle palace temple church farm barn fence field road street path trail map compass flag doctor nurse teacher
  student farmer baker pilot sailor soldier painter writer singer dancer actor judge lawyer king queen prince knight wizard
  dragon giant ghost friend brother sister mother father uncle cousin baby child hand foot arm leg head nose mouth ear eye
  neck back knee heart brain blood bone skin hair tooth tongue finger happy sad angry calm brave shy kind cruel clever funny
  quick slow fast hot cold warm cool wet dry big small tall short long wide narrow deep heavy light dark bright loud quiet
  soft hard rough smooth clean dirty empty full rich poor young old new early late strong weak sweet sour bitter fresh
  run walk jump swim climb fly sing read write draw paint cook eat drink sleep dream think learn teach build break open
  close push pull throw catch give take buy sell find lose begin finish travel listen speak whisper laugh smile cry
  wonder danger secret magic number circle square triangle corner middle center shadow candle fire flame smoke ash
  winner leader hunter runner player worker driver owner member person people village city town country nation language
  level radar civic noon kayak rotor madam refer stats solos pizza quiz jazz lynx oxygen zinc vapor orbit pixel laser
  simple little gentle single double purple turtle candle handle saddle middle bubble apple
  morning useful careful helpful playful painful thankful hopeful peaceful
  action motion nation station question answer reason season lesson person prison poison ribbon salmon wagon
  name user system assistant function arguments description parameters object required properties string type file list
  yes no word text color result value item data code test`);

const unique = (words: readonly string[]): readonly string[] => [...new Set(words)];

/** All ordinary words, 2 to 12 lower-case letters. */
export const words = unique([...categoryNames.flatMap((name) => [...categories[name]]), ...others]);

export const opposites: readonly (readonly [string, string])[] = [
  ["hot", "cold"],
  ["big", "small"],
  ["tall", "short"],
  ["fast", "slow"],
  ["happy", "sad"],
  ["wet", "dry"],
  ["old", "young"],
  ["light", "dark"],
  ["hard", "soft"],
  ["loud", "quiet"],
  ["clean", "dirty"],
  ["empty", "full"],
  ["rich", "poor"],
  ["early", "late"],
  ["strong", "weak"],
  ["open", "closed"],
  ["up", "down"],
  ["left", "right"],
  ["day", "night"],
  ["yes", "no"],
  ["good", "bad"],
  ["near", "far"],
  ["wide", "narrow"],
  ["deep", "shallow"],
  ["true", "false"],
  ["first", "last"],
  ["inside", "outside"],
  ["win", "lose"],
  ["push", "pull"],
  ["begin", "end"],
];

export const thingColors: readonly (readonly [string, string])[] = [
  ["grass", "green"],
  ["snow", "white"],
  ["coal", "black"],
  ["blood", "red"],
  ["a lemon", "yellow"],
  ["the sky", "blue"],
  ["chocolate", "brown"],
  ["a banana", "yellow"],
  ["a tomato", "red"],
  ["milk", "white"],
  ["a carrot", "orange"],
  ["a leaf", "green"],
  ["the night", "black"],
  ["a frog", "green"],
  ["the sun", "yellow"],
];

export const animalLegs: readonly (readonly [string, number])[] = [
  ["a dog", 4],
  ["a cat", 4],
  ["a horse", 4],
  ["a bird", 2],
  ["a spider", 8],
  ["an ant", 6],
  ["a bee", 6],
  ["a snake", 0],
  ["a fish", 0],
  ["a cow", 4],
  ["a duck", 2],
  ["a crab", 10],
  ["a person", 2],
  ["a beetle", 6],
];

export const weekdays = list("Monday Tuesday Wednesday Thursday Friday Saturday Sunday");
export const months = list("January February March April May June July August September October November December");
export const alphabet = [..."abcdefghijklmnopqrstuvwxyz"];

export const names =
  list(`Ada Ben Cara Dan Ella Finn Gina Hugo Iris Jack Kara Liam Mia Noah Olga Paul Quinn Rosa Sam Tina Uma
  Vera Will Xena Yara Zoe Anna Bob Clara David Emma Frank Grace Henry Ivan Julia Kevin Laura Marc Nora Oscar Petra Ralf Sara
  Tom Ursula Victor Wendy Yann Alice Bruno Carlos Diana Erik Fatima George Hana Igor Jonas Lena Maria Nadia Omar Priya Ruth`);

export const cities =
  list(`Oslo Paris Rome Berlin Madrid Lima Cairo Tokyo Delhi Boston Dublin Vienna Prague Athens Lisbon Quito
  Nairobi Sydney Toronto Geneva Zurich Milan Porto Bergen Krakow Munich Lyon Ghent Turin Seville Havana Accra Dakar Kyoto`);
