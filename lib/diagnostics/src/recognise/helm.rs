//! What helm says of a release that it does not change.

use super::details::Details;
use crate::finding::Remedy;

/// Helm was ended while it worked, and the record says that it still does.
pub(super) fn pending(_: &str) -> Details {
    Details::message("a helm release is recorded as being installed, upgraded or rolled back")
}

/// No revision of it was ever deployed.
pub(super) fn never_deployed(_: &str) -> Details {
    Details::message("the first installation of this helm release failed, so there is nothing to upgrade")
        .remedy(
            Remedy::new("remove what the failed installation left, and install again")
                .command("helm history RELEASE -n NAMESPACE")
                .command("helm uninstall RELEASE -n NAMESPACE")
                .command("helm upgrade --install RELEASE CHART -n NAMESPACE"),
        )
}

pub(super) fn name_in_use(_: &str) -> Details {
    Details::message("a helm release of this name exists in the namespace").remedy(
        Remedy::new(
            "upgrade it, or take another name; one whose installation failed is removed by `helm uninstall`",
        )
        .command("helm list --all -n NAMESPACE")
        .command("helm upgrade --install RELEASE CHART -n NAMESPACE"),
    )
}
