//! Finding the place of a problem: from the path of a key to its bytes in the file.
//!
//! ```text
//!  ["flow", "db", "workload", "1", "rate"] ──> walk the parsed document ──> the span of the value
//!  serde's "unknown field `x`, expected one of `a`, `b`" at a span ──> key x, nearest of a and b
//! ```

use std::ops::Range;

use evenkeel_strict::Problem;
use evenkeel_strict::suggest::closest;
use evenkeel_strict::table::child_key;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::words::REMEDY;

/// Collects problems and finds their places.
pub(super) struct Checker<'d> {
    document: &'d DeTable<'d>,
    pub(super) problems: Vec<Problem>,
}

impl<'d> Checker<'d> {
    pub(super) fn new(document: &'d DeTable<'d>) -> Self {
        Self { document, problems: Vec::new() }
    }

    /// Reports a problem with the value at `path`; numbers count the elements of lists.
    pub(super) fn refuse(&mut self, path: &[&str], message: impl Into<String>, remedy: impl Into<String>) {
        let path: Vec<&str> = path.iter().copied().filter(|step| !step.is_empty()).collect();
        let span = span_of(self.document, &path).unwrap_or(0..0);
        let key = path.iter().filter(|step| step.parse::<usize>().is_err());
        let key = key.fold(String::new(), |key, step| child_key(&key, step));
        self.problems.push(Problem { span, key, message: message.into(), remedy: remedy.into() });
    }
}

/// The place of the value at `path`, or of the nearest table around it that is there.
fn span_of(document: &DeTable<'_>, path: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = document.get_key_value(*first)?;
    inside(value, rest).or_else(|| Some(if rest.is_empty() { value.span() } else { key.span() }))
}

fn inside(value: &Spanned<DeValue<'_>>, path: &[&str]) -> Option<Range<usize>> {
    let Some((first, rest)) = path.split_first() else { return Some(value.span()) };
    match value.get_ref() {
        DeValue::Table(table) => {
            let (key, value) = table.get_key_value(*first)?;
            inside(value, rest).or_else(|| Some(key.span()))
        }
        DeValue::Array(list) => match first.parse::<usize>() {
            Ok(index) => {
                let element = list.get(index)?;
                inside(element, rest).or_else(|| Some(element.span()))
            }
            Err(_) => None,
        },
        // One table in place of a list of one.
        _ => None,
    }
}

/// What the parser says, in the words of this program.
pub(super) fn translated(error: &toml::de::Error, document: &DeTable<'_>) -> Problem {
    let span = error.span().unwrap_or(0..0);
    let message = error.message().trim();
    let key = key_at(document, &span, String::new()).unwrap_or_default();
    let problem =
        |key: String, message: String, remedy: String| Problem { span: span.clone(), key, message, remedy };
    let mut words = quoted(message);
    if message.starts_with("unknown field") && !words.is_empty() {
        let unknown = words.remove(0);
        let remedy = nearest(&unknown, &words, "remove it");
        return problem(key, "unknown key".to_owned(), remedy);
    }
    if message.starts_with("unknown variant") && !words.is_empty() {
        let unknown = words.remove(0);
        let remedy = nearest(&unknown, &words, "choose another");
        return problem(key, format!("{unknown:?} is not known here"), remedy.replace('`', "\""));
    }
    if message.starts_with("missing field") && !words.is_empty() {
        let missing = words.remove(0);
        let remedy = match missing.as_str() {
            "device" => "add a section [device] with a rate".to_owned(),
            "flow" => "add a section [flow.NAME] with a workload".to_owned(),
            _ => format!("add a line {missing} = .."),
        };
        // What is missing in the file itself is said of its beginning, where some other key may stand.
        let key = if span.start == 0 { String::new() } else { key };
        return problem(child_key(&key, &missing), "the key is missing".to_owned(), remedy);
    }
    match message.split_once(REMEDY) {
        Some((message, remedy)) => problem(key, message.to_owned(), remedy.to_owned()),
        None => problem(key, message.replace('\n', ", "), "correct the value".to_owned()),
    }
}

fn nearest(unknown: &str, known: &[String], otherwise: &str) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match closest(unknown, &known) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => otherwise.to_owned(),
        None => format!("{otherwise}; known here: {}", known.join(", ")),
    }
}

/// The words in backticks.
fn quoted(message: &str) -> Vec<String> {
    message.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The path of the innermost key whose name or value is at `span`.
fn key_at(table: &DeTable<'_>, span: &Range<usize>, path: String) -> Option<String> {
    let within = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (name, value) in table {
        let key = child_key(&path, name.get_ref());
        if within(name.span()) {
            return Some(key);
        }
        if let Some(found) = key_in(value, span, &key) {
            return Some(found);
        }
        if within(value.span()) {
            return Some(key);
        }
    }
    None
}

fn key_in(value: &Spanned<DeValue<'_>>, span: &Range<usize>, key: &str) -> Option<String> {
    match value.get_ref() {
        // The span of a table with a header is the header's; its keys stand elsewhere.
        DeValue::Table(table) => key_at(table, span, key.to_owned()),
        DeValue::Array(list) => list.iter().find_map(|element| key_in(element, span, key)),
        _ => None,
    }
}
