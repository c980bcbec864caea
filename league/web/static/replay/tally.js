// Kills and damage of each mech up to each frame, and the weapons that it used.
export function countUp(recording) {
  const mechs = recording.header.roles.length;
  const { length } = recording;
  const dealt = Array.from({ length: mechs }, () => new Float32Array(length));
  const kills = Array.from({ length: mechs }, () => new Int16Array(length));
  const side = (mech) => Number(mech >= recording.header.agents_per_side[0]);
  const { hits } = recording;
  hits.shooter.forEach((shooter, row) => {
    if (shooter >= 0 && side(shooter) !== side(hits.target[row])) {
      dealt[shooter][hits.frame[row]] += hits.damage[row] / 10;
    }
  });
  for (const { kind, at, by, mech } of recording.events) {
    if (kind === "kill" && by !== null && side(by) !== side(mech)) kills[by][at] += 1;
  }
  for (const counts of [...dealt, ...kills]) {
    for (let frame = 1; frame < length; frame += 1) counts[frame] += counts[frame - 1];
  }
  return { dealt, kills, weapons: weaponsOf(recording, mechs) };
}

function weaponsOf(recording, mechs) {
  const { shells, beams, weapons } = recording;
  const seen = Array.from({ length: mechs }, () => new Set());
  shells.owner.forEach((owner, row) => seen[owner].add(weapons[shells.weapon[row]]));
  beams.shooter.forEach((shooter, row) => seen[shooter].add(weapons[beams.weapon[row]]));
  return seen.map((names) => weapons.filter((name) => names.has(name)));
}
