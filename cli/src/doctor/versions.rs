//! Parts of Config Weaver that are too old for the newest one.
//!
//! What a user may not read is no fault here: `weaver version` names it.

use kube::Client;
use weaver_diagnostics::finding::{Code, Finding};
use weaver_diagnostics::version_gap::{PartVersion, gaps};

use crate::connection;
use crate::version::{WEAVER, all_parts, programs};

/// Parts that are named individually.
const NAMED: usize = 10;

pub async fn look(client: &Client) -> Vec<Finding> {
    judge(&all_parts(WEAVER, Some(&programs(client).await)))
}

fn judge(parts: &[PartVersion]) -> Vec<Finding> {
    let gaps = gaps(parts);
    let bad = |message: String| Finding::new(Code::PartsTooFarApart, message);
    let mut findings: Vec<_> = gaps.iter().take(NAMED).map(|gap| bad(gap.to_string())).collect();
    let more = gaps.len().saturating_sub(NAMED);
    if more > 0 {
        let flags = connection::flags();
        findings.push(bad(format!("{more} more parts are too old: `weaver version{flags}`")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_is_too_old_is_named_up_to_a_number() {
        let parts = |old: usize| {
            let old = (0..old).filter_map(|n| PartVersion::new(format!("agent on n{n}"), "0.1.0"));
            PartVersion::new("weaver", "0.3.0").into_iter().chain(old).collect::<Vec<_>>()
        };
        assert_eq!(judge(&parts(0)), []);
        let one = judge(&parts(1));
        assert_eq!((one.len(), one[0].code), (1, Code::PartsTooFarApart));
        let said = "agent on n0 0.1.0 is more than one minor version behind weaver 0.3.0";
        assert_eq!(one[0].message, said);
        let many = judge(&parts(NAMED + 2));
        assert_eq!(
            (many.len(), many[NAMED].message.as_str()),
            (NAMED + 1, "2 more parts are too old: `weaver version`")
        );
    }
}
