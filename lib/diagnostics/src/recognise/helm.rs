//! What helm says of a release that it does not change.

use super::details::Details;
use crate::finding::Remedy;

/// Helm was ended while it worked, and the record says that it still does.
pub(super) fn pending(_: &str) -> Details {
    Details::message("a helm release is recorded as being installed, upgraded or rolled back")
}

/// Its first installation failed, or the state of its revisions was lost.
pub(super) fn not_deployed(_: &str) -> Details {
    Details::message("helm has no revision of this release on record as deployed, so there is nothing to upgrade").remedy(
        Remedy::new(
            "look at its history. If an earlier revision ran, go back to it; only if revision 1 is the only one and has failed, \
             uninstall the release, which deletes all that belongs to it, and install it again",
        )
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm rollback RELEASE REVISION -n NAMESPACE"),
    )
}

/// The job of k3s that installs a chart, after a failure.
pub(super) fn aborted(_: &str) -> Details {
    Details::message("a HelmChart of k3s has failed, and is not tried again: its `failurePolicy` is abort").remedy(
        Remedy::new(
            "the log of the job before says what failed: correct it, then have helm go back or remove the release; the job \
             runs again by itself",
        )
        .command("kubectl get helmcharts -A")
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm rollback RELEASE REVISION -n NAMESPACE"),
    )
}

pub(super) fn name_in_use(_: &str) -> Details {
    Details::message("a helm release of this name exists in the namespace").remedy(
        Remedy::new(
            "upgrade it, or take another name; one whose first installation failed is removed by `helm uninstall`",
        )
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm upgrade --install RELEASE CHART -n NAMESPACE"),
    )
}
