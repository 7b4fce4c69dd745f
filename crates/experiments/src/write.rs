//! The results as files: one page, one picture and one JSON file per experiment, and a book of all.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use evenkeel_report::html::Page;
use serde_json::json;

use crate::{Context, Experiment, Study};

/// Writes `ID.md`, `ID.svg` (and `ID-2.svg` and so on) and `ID.json` into `folder`.
///
/// # Errors
/// If a file cannot be written.
pub fn study(folder: &Path, experiment: &Experiment, study: &Study, context: &Context) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    replace(&folder.join(format!("{}.md", experiment.id)), &markdown(experiment, study, context))?;
    replace(&folder.join(format!("{}.json", experiment.id)), &json_text(experiment, study, context))?;
    for (index, figure) in study.figures.iter().enumerate() {
        replace(&folder.join(figure_name(experiment.id, index)), &figure.svg)?;
    }
    Ok(())
}

/// Writes the book: `reproduction.md` and `reproduction.html`, which has every figure in it.
///
/// # Errors
/// If a file cannot be written.
pub fn book(folder: &Path, studies: &[(&Experiment, &Study)], context: &Context) -> io::Result<()> {
    replace(&folder.join("reproduction.md"), &book_markdown(studies, context))?;
    replace(&folder.join("reproduction.html"), &book_html(studies, context))
}

/// The result as JSON; the same bytes for the same seeds.
#[must_use]
pub fn json_text(experiment: &Experiment, study: &Study, context: &Context) -> String {
    let value = json!({
        "id": experiment.id,
        "title": experiment.title,
        "source": experiment.source,
        "commit": context.commit,
        "holds": study.holds(),
        "study": study,
    });
    format!("{value:#}\n")
}

/// Writes beside the file first, so that a page is never seen half written.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

fn figure_name(id: &str, index: usize) -> String {
    if index == 0 { format!("{id}.svg") } else { format!("{id}-{}.svg", index + 1) }
}

fn verdict(study: &Study) -> String {
    let kept = study.checks.iter().filter(|check| check.holds).count();
    format!("{kept} of {} hold", study.checks.len())
}

/// Where the numbers come from, to be run again.
fn origin(study: &Study, context: &Context) -> String {
    let seeds: Vec<String> = study.seeds.iter().map(u64::to_string).collect();
    let seeds = match seeds.len() {
        0 => "No random numbers.".to_owned(),
        1 => format!("Seed: {}.", seeds[0]),
        _ => format!("Seeds: {}.", seeds.join(", ")),
    };
    format!("{seeds} {}", commit(context))
}

fn commit(context: &Context) -> String {
    context.commit.as_ref().map_or("Commit: not known.".to_owned(), |commit| format!("Commit: {commit}."))
}

fn markdown(experiment: &Experiment, study: &Study, context: &Context) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# {}: {}\n", experiment.id, experiment.title);
    let _ = writeln!(
        text,
        "Source: {}. Run it with `evenkeel reproduce {}`.\n",
        experiment.source, experiment.id
    );
    for (index, figure) in study.figures.iter().enumerate() {
        let _ = writeln!(text, "![{}]({})\n", figure.title, figure_name(experiment.id, index));
    }
    let _ = writeln!(text, "## What must hold ({})\n", verdict(study));
    let rows: Vec<Vec<String>> = study
        .checks
        .iter()
        .map(|check| {
            let holds = if check.holds { "yes" } else { "**no**" };
            let reason = check.reason.as_ref().map_or(String::new(), |reason| format!(". {reason}"));
            vec![check.law.clone(), holds.to_owned(), format!("{}{reason}", check.found)]
        })
        .collect();
    table(&mut text, &["law", "holds", "found"], &rows);
    for numbers in &study.tables {
        let _ = writeln!(text, "\n## {}\n", numbers.title);
        table(&mut text, &numbers.heads, &numbers.rows);
    }
    if !study.notes.is_empty() {
        let _ = writeln!(text, "\n## What differs, and why\n");
        for note in &study.notes {
            let _ = writeln!(text, "- {note}");
        }
    }
    let _ = writeln!(text, "\n{}", origin(study, context));
    text
}

fn table<S: AsRef<str>>(text: &mut String, heads: &[S], rows: &[Vec<String>]) {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let escaped = |cell: &str| cell.replace('|', "\\|");
    let _ = writeln!(text, "{}", line(heads.iter().map(|head| escaped(head.as_ref())).collect()));
    let _ = writeln!(text, "|{}", "---|".repeat(heads.len()));
    for row in rows {
        let _ = writeln!(text, "{}", line(row.iter().map(|cell| escaped(cell)).collect()));
    }
}

fn book_markdown(studies: &[(&Experiment, &Study)], context: &Context) -> String {
    let mut text = String::from(
        "# The papers, reproduced\n\nEvery table and figure, run by `evenkeel reproduce all`. A page compares shape and law, not the authors' \
         machine: the paper's numbers beside ours, what must hold, and whether it does. One file with all \
         figures: [reproduction.html](reproduction.html).\n\n",
    );
    let rows: Vec<Vec<String>> = studies
        .iter()
        .map(|(experiment, study)| {
            vec![
                format!("[{0}]({0}.md)", experiment.id),
                experiment.title.to_owned(),
                experiment.source.to_owned(),
                verdict(study),
            ]
        })
        .collect();
    table(&mut text, &["experiment", "what it shows", "source", "checks"], &rows);
    let _ = writeln!(text, "\n{}", commit(context));
    text
}

fn book_html(studies: &[(&Experiment, &Study)], context: &Context) -> String {
    let mut page = Page::new("The papers, reproduced");
    for (experiment, study) in studies {
        page.heading(&format!("{}: {}", experiment.id, experiment.title));
        page.paragraph(&format!("Source: {}. {}.", experiment.source, verdict(study)));
        let rows: Vec<Vec<String>> = study
            .checks
            .iter()
            .map(|check| {
                let holds = if check.holds { "yes" } else { "NO" };
                let reason = check.reason.clone().unwrap_or_default();
                vec![check.law.clone(), holds.to_owned(), check.found.clone(), reason]
            })
            .collect();
        page.table(&["law", "holds", "found", "reason"], &rows);
        for figure in &study.figures {
            page.figure(&figure.svg);
        }
        for numbers in &study.tables {
            let heads: Vec<&str> = numbers.heads.iter().map(String::as_str).collect();
            page.paragraph(&numbers.title);
            page.table(&heads, &numbers.rows);
        }
        for note in &study.notes {
            page.paragraph(note);
        }
        page.paragraph(&origin(study, context));
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Figure};

    fn studied() -> (&'static Experiment, Study) {
        let mut study = Study { seeds: vec![7, 8], ..Study::default() };
        study.check(Check::at_most("It is small", 2.0, 1.0, "ms").because("it is large"));
        study.table("Numbers", &["paper", "ours"], vec![vec!["1".to_owned(), "2".to_owned()]]);
        study.note("Another disk.");
        study.figures = ["one", "two"]
            .map(|it| Figure { title: it.to_owned(), svg: format!("<svg id={it:?}/>") })
            .to_vec();
        (crate::find("pclock-case1").expect("it is there"), study)
    }

    #[test]
    fn pages_and_book_say_what_was_found_why_and_from_where() {
        let (experiment, study) = studied();
        let context = Context { commit: Some("abc123".to_owned()), ..Context::default() };
        let page = markdown(experiment, &study, &context);
        let html = book_html(&[(experiment, &study)], &context);
        for text in [&page, &html] {
            for wanted in
                ["It is small", "it is large", "paper", "Another disk.", "Seeds: 7, 8.", "Commit: abc123."]
            {
                assert!(text.contains(wanted), "{wanted} is not in {text}");
            }
        }
        assert!(page.contains("0 of 1 hold") && page.contains("(pclock-case1-2.svg)"));
        assert!(html.contains("id=\"one\"") && html.contains("id=\"two\""), "every figure is in the book");
        assert!(book_markdown(&[(experiment, &study)], &context).contains("Commit: abc123."));
    }
}
