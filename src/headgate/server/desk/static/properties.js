// Properties of a message as people write them: `name = value`, one a line.

const LINE = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/;
const WHOLE = /^-?\d+$/;
const HEX = /^0x((?:[0-9a-fA-F]{2})*)$/;

/** The properties that were written, and what is wrong with lines that cannot be read. */
export function parsed(text) {
  const properties = {};
  const mistakes = [];
  text.split("\n").forEach((line, index) => {
    if (!line.trim()) return;
    const [, name, value] = LINE.exec(line) ?? [];
    if (name === undefined) mistakes.push(`line ${index + 1}: write name = value, like amount = 12`);
    else if (/^-?\d+\.\d+$/.test(value)) mistakes.push(`line ${index + 1}: ${value} is not a whole number; expressions know whole numbers, texts, true and false`);
    else properties[name] = valueOf(value);
  });
  return { properties, mistakes };
}

function valueOf(text) {
  if (text === "true" || text === "false") return text === "true";
  if (WHOLE.test(text)) return Number.isSafeInteger(Number(text)) ? Number(text) : JSON.rawJSON?.(text) ?? Number(text);
  const hex = HEX.exec(text);
  if (hex) return { hex: hex[1] };
  if (text.startsWith('"')) try { return JSON.parse(text); } catch { /* a text that only begins with a quote */ }
  return text;
}

export function written(properties) {
  return Object.entries(properties).map(([name, value]) => `${name} = ${value?.hex !== undefined ? `0x${value.hex}` : JSON.stringify(value)}`).join("\n");
}
