//! What people and programs get to read: problems of a configuration with the offending lines, and
//! plain output.
//!
//! ```text
//!  ConfigError ──┬─ people    ──> stderr: each problem with its line, what is wrong, what to do
//!                └─ programs  ──> stdout: {"ok":false,"problems":[{file,line,column,key,...}]}
//! ```

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};

use evenkeel_gateway::config::{ConfigError, Problem};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode, SourceSpan,
};
use serde_json::{Value, json};

/// Columns of a report; lines of help are wrapped there.
const WIDTH: usize = 110;

/// Shows every problem: to people on standard error or, with `json`, as one object on standard output.
pub(crate) fn config_error(error: &ConfigError, json: bool) {
    if json {
        print(&format!("{}\n", json!({ "ok": false, "problems": problems_as_json(error) })));
    } else {
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print_error(&rendered(error, colours));
    }
}

/// Writes to standard output. A reader that has gone away (`| head`) is no failure of ours.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(crate) fn print_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn problems_as_json(error: &ConfigError) -> Vec<Value> {
    let as_json = |problem: &Problem| {
        let (line, column) = error.line_column(problem);
        json!({
            "file": error.file.to_string_lossy(),
            "line": line,
            "column": column,
            "key": problem.key,
            "message": problem.message,
            "remedy": problem.remedy,
        })
    };
    error.problems.iter().map(as_json).collect()
}

fn rendered(error: &ConfigError, colours: bool) -> String {
    let theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_links(false);
    let file = error.file.to_string_lossy();
    let source = NamedSource::new(&file, error.text.clone());
    let mut text = String::new();
    for problem in &error.problems {
        let shown = Shown { problem, source: &source, has_text: !error.text.is_empty() };
        // Writing to a string cannot fail; should rendering, then the plain text still says it all.
        if handler.render_report(&mut text, &shown).is_err() {
            let _ = writeln!(text, "{shown}; {}", problem.remedy);
        }
        text.push('\n');
    }
    let count = error.problems.len();
    let _ = writeln!(text, "{file}: {count} problem{}", if count == 1 { "" } else { "s" });
    text
}

/// A problem as miette wants it.
#[derive(Debug)]
struct Shown<'e> {
    problem: &'e Problem,
    source: &'e NamedSource<String>,
    /// Whether there is a text to point into: not if the file could not be read.
    has_text: bool,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.key.is_empty() {
            f.write_str(&self.problem.message)
        } else {
            write!(f, "{}: {}", self.problem.key, self.problem.message)
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.problem.remedy))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        if self.has_text { Some(self.source) } else { None }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = SourceSpan::from(self.problem.span.clone());
        let label = LabeledSpan::new_primary_with_span(Some("here".to_owned()), span);
        if self.has_text { Some(Box::new(std::iter::once(label))) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_gateway::config::{EXAMPLE, parse};
    use proptest::prelude::*;
    use std::path::Path;

    fn check_total(text: &str) {
        if let Err(error) = parse(text, Path::new("x.toml")) {
            let shown = rendered(&error, false);
            for problem in &error.problems {
                let first_word = problem.message.split(' ').next().unwrap_or_default();
                assert!(shown.contains(first_word), "{first_word:?} is missing in {shown}");
            }
            assert_eq!(problems_as_json(&error).len(), error.problems.len());
        }
    }

    #[test]
    fn problems_at_the_edges_of_the_text_are_rendered() {
        for text in
            ["", "\n", "a", "a = ", "[", "[x", "x = \"", "[gateway]", "\u{feff}a = 1", "é = ü", "\t\t= 3\r\n"]
        {
            check_total(text);
        }
    }

    proptest! {
        #[test]
        fn problems_of_any_text_are_rendered(text: String) {
            check_total(&text);
        }

        #[test]
        fn problems_of_mutated_files_are_rendered(
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, ".{0,4}"), 1..6),
        ) {
            let mut text: Vec<char> = EXAMPLE.chars().collect();
            for (at, length, insert) in cuts {
                let start = at.index(text.len());
                let end = (start + length).min(text.len());
                text.splice(start..end, insert.chars());
            }
            check_total(&text.into_iter().collect::<String>());
        }
    }
}
