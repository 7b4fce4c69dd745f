//! A report as one HTML file: tables and figures inside, no scripts, nothing to fetch.

use std::fmt::Write as _;

/// A page in the making.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;\
color:#1a1a1a;background:#fff}h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}\
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\
th,td{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}td.text{text-align:left;white-space:normal}\
thead th{border-bottom:2px solid #888}figure{margin:1.5em 0}svg{max-width:100%;height:auto}\
.broken{color:#a03000;font-weight:600}p.note{color:#555}";

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let mut page = Self { title: title.to_owned(), body: String::new() };
        let _ = writeln!(page.body, "<h1>{}</h1>", escaped(title));
        page
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
        self
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escaped(text));
        self
    }

    /// Adds a table; the cells of a row that says "broken" stand out.
    pub fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) -> &mut Self {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            cells.fold(String::new(), |text, cell| text + &format!("<{tag}>{}</{tag}>", escaped(cell)))
        };
        let _ = writeln!(
            self.body,
            "<table><thead><tr>{}</tr></thead><tbody>",
            cells("th", &mut heads.iter().copied())
        );
        for row in rows {
            let class = if row.iter().any(|cell| cell == "broken") { " class=\"broken\"" } else { "" };
            let row = cells("td", &mut row.iter().map(String::as_str));
            let _ = writeln!(self.body, "<tr{class}>{row}</tr>");
        }
        self.body.push_str("</tbody></table>\n");
        self
    }

    /// Adds a figure: an SVG document of this crate, put in as it is.
    pub fn figure(&mut self, svg: &str) -> &mut Self {
        let _ = writeln!(self.body, "<figure>{}</figure>", sized(svg));
        self
    }

    /// The page.
    #[must_use]
    pub fn finish(&self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style></head>\n\
             <body>\n{}</body></html>\n",
            escaped(&self.title),
            self.body
        )
    }
}

/// Lets the page shrink the figure: a size that is fixed in the document would win over the style.
fn sized(svg: &str) -> &str {
    svg.trim()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_nothing_is_fetched() {
        let mut page = Page::new("a <b>");
        page.heading("h & i").paragraph("\"p\"").table(&["x<"], &[vec!["broken".to_owned()]]);
        let text = page.figure("<svg></svg>").finish();
        for expected in ["<title>a &lt;b&gt;</title>", "h &amp; i", "&quot;p&quot;", "x&lt;", "<svg></svg>"] {
            assert!(text.contains(expected), "{expected} is missing");
        }
        assert!(text.contains("<tr class=\"broken\">"));
        assert!(!text.contains("<script") && !text.contains("http"));
    }
}
