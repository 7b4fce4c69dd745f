//! The matrix on block traces: real ones where there are any, generated loads otherwise.

use std::path::Path;

use super::synthetic::matrix;
use crate::{Context, ExperimentError, Study};

const TEXT: &str = include_str!("../../../../experiments/matrix-traces.toml");

/// A trace in the place of a flow's load: flow, file, format.
type Replacement = (&'static str, &'static str, &'static str);

/// Pairs of traces that are run together.
const REAL: [(&str, [Replacement; 2]); 3] = [
    (
        "WebSearch1 and Financial1",
        [
            ("search", "spc-WebSearch1-first24783_mqsim-wsrch-small.trace.gz", "mqsim"),
            ("bank", "spc-Financial1-first10000_huaicheng-example.ascii.ssdsim.gz", "ssdsim"),
        ],
    ),
    (
        "DiskSim's sample and PostMark",
        [
            ("search", "disksim_ascii.trace.gz", "disksim"),
            ("bank", "msr-ssdext_postmark-aligned2.trace.gz", "disksim"),
        ],
    ),
    (
        "IOzone and Financial1, one ASU",
        [
            ("search", "msr-ssdext_iozone-aligned2-100K.trace.gz", "disksim"),
            ("bank", "spc-Financial1-ASU9_flashsim-test.file.disksim.gz", "disksim"),
        ],
    ),
];

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let scenario = context.scenario("matrix-traces.toml", TEXT)?;
    study.seeds.push(scenario.seed);
    matrix(context, &mut study, "generated search engine and bank", &scenario)?;
    let Some(folder) = &context.traces else {
        study.note("No folder with real traces was given (`--traces`): generated loads only.");
        return Ok(study);
    };
    for (name, traces) in REAL {
        let mut text = TEXT.to_owned();
        for (flow, file, format) in traces {
            let path = folder.join(file);
            if !path.is_file() {
                let message = format!("{}: there is no such trace; see shared traces' names", path.display());
                return Err(ExperimentError::Other(message));
            }
            text = with_trace(&text, flow, &path, format)?;
        }
        let scenario = context.scenario("matrix-traces.toml", &text)?;
        matrix(context, &mut study, name, &scenario)?;
    }
    study.note("The real traces are samples from public repositories; they are not part of Evenkeel.");
    Ok(study)
}

/// The scenario with a trace as the workload of `flow`.
fn with_trace(text: &str, flow: &str, path: &Path, format: &str) -> Result<String, ExperimentError> {
    let missing = || ExperimentError::Other(format!("matrix-traces.toml has no workload of {flow}"));
    let section = text.find(&format!("[flow.{flow}]")).ok_or_else(missing)?;
    let begin = section + text[section..].find("workload = ").ok_or_else(missing)?;
    let end = begin + text[begin..].find('\n').ok_or_else(missing)?;
    let path = std::path::absolute(path).map_err(|error| ExperimentError::Other(error.to_string()))?;
    let workload = format!("workload = {{ trace = {:?}, format = \"{format}\" }}", path.to_string_lossy());
    Ok(format!("{}{workload}{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_workload_of_that_flow_changes() {
        let text = with_trace(TEXT, "bank", Path::new("/t/x.gz"), "disksim").expect("it is there");
        assert!(text.contains("workload = { trace = \"/t/x.gz\", format = \"disksim\" }"));
        assert_eq!(text.matches("on-off").count(), 1);
        assert!(with_trace(TEXT, "nobody", Path::new("/t/x.gz"), "disksim").is_err());
    }
}
