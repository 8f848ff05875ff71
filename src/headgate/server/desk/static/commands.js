// What a command needs to be pasted: where the configuration of this router is, or its address.

let options = { admin: "", channels: null, queues: null, files: "" };

export function learnOptions(found) { if (found) options = found; }

const ALONE = /^headgate (expr check|completion|version)\b/; // asks nobody
const QUEUE = /^headgate (pub|sub) '?bmq:/;
const CHANNEL = /^headgate (pub|sub) /;
const FILES = /^headgate (cert|check|config|journal|pipeline|store) /;

/** The same command, as it can be pasted into any terminal of the router's machine. */
export function placed(command) {
  if (!command.startsWith("headgate ") || ALONE.test(command)) return command;
  const [, found] = [[QUEUE, options.queues], [CHANNEL, options.channels], [FILES, options.files], [/^/, options.admin]].find(([kind]) => kind.test(`${command} `));
  return found ? `${command} ${found}` : command;
}

/** Whether anybody listens for those who publish on channels. */
export const hasChannels = () => options.channels !== null;
