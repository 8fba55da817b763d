// Encodes a JSON list of strings with Hugging Face's tokenizers: module, tokenizer.json, input, output.
const fs = require("fs");
const [mod, file, input, output] = process.argv.slice(2);
const { Tokenizer } = require(mod);

(async () => {
  const tok = Tokenizer.fromFile(file);
  const out = fs.createWriteStream(output);
  for (const text of JSON.parse(fs.readFileSync(input, "utf8"))) {
    const e = await tok.encode(text, null, { addSpecialTokens: false });
    if (!out.write(JSON.stringify(e.getIds()) + "\n")) await new Promise((r) => out.once("drain", r));
  }
  out.end();
})();
