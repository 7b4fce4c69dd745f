//! Strict TOML for people: keys are asked for by name, values carry their units, and every problem
//! of a text is reported at once, each with its place and its remedy. Configurations of the gateway
//! and descriptions of devices are read with it.
//!
//! ```text
//!  text ──> document (spans) ──> Table ──> take("depth") ──> Item ──> time | bytes | whole | choice ...
//!              │                   │                          │
//!              └───────────────────┴──────────────────────────┴──> Report: Problem { span, key, message, remedy }
//! ```
//!
//! Nothing is guessed and nothing is rounded: an unknown key, a value without its unit or one that is
//! finer than the resolution is a problem.
#![forbid(unsafe_code)]

use toml::Spanned;
use toml::de::DeTable;

pub mod file;
pub mod problem;
pub mod suggest;
pub mod table;
pub mod values;

pub use problem::{ConfigError, PROBLEMS_MAX, Problem};
pub use table::{Item, Report, Table};
pub use values::ShownBytes;

/// Parses `text` as TOML, keeping the place of every key and value.
///
/// # Errors
/// Every fault of the syntax. What the parser recovers from broken syntax is not handed out: it would
/// only give rise to follow-up problems.
pub fn document(text: &str) -> Result<Spanned<DeTable<'_>>, Vec<Problem>> {
    let (root, faults) = DeTable::parse_recoverable(text);
    if faults.is_empty() { Ok(root) } else { Err(faults.iter().map(syntax_problem).collect()) }
}

fn syntax_problem(fault: &toml::de::Error) -> Problem {
    let message = fault.message().trim().replace('\n', ", ");
    let remedy = if message.contains("duplicate") {
        "keep only one of them"
    } else {
        "correct the TOML syntax; values with units stand in quotes, as \"100 ms\""
    };
    Problem {
        span: fault.span().unwrap_or(0..0),
        key: String::new(),
        message: format!("not valid TOML: {message}"),
        remedy: remedy.to_owned(),
    }
}
