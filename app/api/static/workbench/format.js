/** Numbers, dates, values and names as text. */

const fourDecimals = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const threeDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" });
const minute = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });

/** @returns with up to four decimals */
export const formatNumber = (value) => fourDecimals.format(value);

/** @returns with three significant digits */
export const formatShort = (value) => threeDigits.format(value);

/** A time as people say it, rounded up to a tenth of a month. */
export const formatMonths = (months) => counted(Math.ceil(10 * months - 1e-6) / 10, "month");

export const formatDate = (time) => day.format(new Date(time));

/** @param time in ISO 8601 @returns with hours and minutes */
export const formatTime = (time) => minute.format(new Date(time));

/** @param share from 0 to 1 @returns as a count of 100 */
export function inHundred(share) {
  const count = Math.round(share * 100);
  if (count <= 0 && share > 0) return "fewer than 1 in 100";
  if (count >= 100 && share < 1) return "more than 99 in 100";
  return `${count} in 100`;
}

/**
 * Fewest digits after the point with which a chance does not read like the cut-off that it missed or reached.
 * @param at the cut-off
 */
export function digitsApart(share, at) {
  let digits = 0;
  const reads = (one) => (100 * one).toFixed(digits);
  while (at !== null && share !== at && digits < 6 && reads(share) === reads(at)) digits++;
  return digits;
}

/** A chance as a count of 100 that tells it from the cut-off. */
export function chanceInHundred(share, at) {
  const digits = digitsApart(share, at);
  return digits === 0 ? inHundred(share) : `${(100 * share).toFixed(digits)} in 100`;
}

/**
 * What the model gives: points, else a chance; null of one that only says yes or no.
 * @param at the cut-off, where the chance stands beside it
 */
export const rating = ({ points, probability }, at = null) =>
  points != null ? counted(points, "point") : probability != null ? chanceInHundred(probability, at) : null;

/** @param share from 0 to 1 @returns the same where the unit stands above it */
export const outOfHundred = (share) =>
  inHundred(share).replace("fewer than ", "< ").replace("more than ", "> ").replace(" in 100", "");

/** @param lower a lower bound from 0 to 1 @returns rounded down, so that it still holds */
export const lowerBound = (lower) => (Math.floor(lower * 100 + 1e-9) / 100).toFixed(2);

/** @param upper an upper bound from 0 to 1 @returns rounded up, so that it still holds */
export const upperBound = (upper) => (Math.ceil(upper * 100 - 1e-9) / 100).toFixed(2);

/** @param interval a 95% confidence interval of a share */
export const confidence = ([low, high]) =>
  `95% confidence interval: ${formatShort(100 * low)} to ${formatShort(100 * high)} in 100`;

/** What a code means that is a state and not a quantity. */
export const meaningOf = ({ special }, value) =>
  Object.entries(special).find(([code]) => typeof value === "number" && Number(code) === value)?.[1];

export function formatValue(feature, value) {
  if (value === null) return "missing";
  const named = feature.level_names?.[String(value)];
  if (named !== undefined && feature.categories) return named;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  const meaning = meaningOf(feature, value);
  if (meaning !== undefined) return meaning;
  const text = new Intl.NumberFormat("en", { maximumFractionDigits: feature.decimals ?? 4 }).format(value);
  return feature.unit === "%" ? `${text}%` : feature.unit ? `${text} ${feature.unit}` : text;
}

/** @param name of the API, such as `max_changes` @returns such as `Max changes` */
export const readable = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

export const counted = (count, noun, plural = `${noun}s`) => `${formatNumber(count)} ${count === 1 ? noun : plural}`;
