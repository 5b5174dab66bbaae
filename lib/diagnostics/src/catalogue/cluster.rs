//! What runs in the cluster: registries and images, kinds, accounts, leases.

macro_rules! cluster_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Images {
        RegistryPlainHttp = "R-01" "registry-plain-http" Fail {
            title: "A registry uses plain HTTP but was asked over HTTPS.",
            cause: "containerd and skopeo use HTTPS unless configured otherwise. The last error shown may \
                be that of the default HTTPS endpoint, not of the configured one.",
            remedy: "on each node, add what the first command prints to /etc/rancher/k3s/registries.yaml, then \
                restart k3s; with skopeo, pass `--dest-tls-verify=false`",
            commands: [
                "weaver registry config REGISTRY:PORT --http",
                RESTART_K3S,
            ],
            links: [K3S_REGISTRIES],
        }
        ImageWithoutRegistry = "R-02" "image-without-registry" Fail {
            title: "An image name without a registry refers to docker.io.",
            cause: "If its first part has neither a dot nor a colon, an image is pulled from docker.io.",
            remedy: "put the registry in front: REGISTRY:PORT/IMAGE",
            links: [K3S_REGISTRIES],
        }
        RegistryNotAService = "R-03" "registry-not-a-service" Warn {
            title: "The registry is not a Service of the cluster.",
            cause: "A registry of k3d is a container on the Docker network outside the cluster.",
            remedy: "use REGISTRY:5000 inside the cluster, and on your machine localhost with the port that Docker assigned",
            commands: ["k3d registry list", "docker ps --filter label=k3d.role=registry"],
        }
        ImageForOtherProcessor = "R-05" "image-for-other-processor" Fail {
            title: "An image or a program is built for another processor.",
            cause: "A Raspberry Pi with a 64-bit system is arm64, and the image or the program has no build for that, or \
                only one for a newer processor. `exec format error` also appears for a script without `#!` in its first line.",
            remedy: "choose an image, a tag or a download for linux/arm64, or build one",
            commands: ["skopeo inspect --raw docker://IMAGE:TAG", "docker buildx build --platform linux/arm64 --push -t IMAGE:TAG ."],
        }
        ImageNotFound = "R-06" "image-not-found" Fail {
            title: "The registry does not have this image or tag.",
            cause: "The name or the tag is wrong, or the image was never pushed.",
            remedy: "compare the name with the tags that the registry has",
            commands: ["skopeo list-tags docker://IMAGE"],
        }
        ImagePullsLimited = "R-07" "image-pulls-limited" Fail {
            title: "The registry limits the number of pulls.",
            cause: "Docker Hub counts pulls by IP address, and all machines in a home network share one.",
            remedy: "wait a few hours; or configure an account or a mirror of docker.io in \
                /etc/rancher/k3s/registries.yaml, for which the command prints a template",
            commands: ["weaver registry config docker.io"],
            links: [K3S_REGISTRIES],
        }
        RegistryUnreachable = "R-08" "registry-unreachable" Fail {
            title: "The node does not reach the registry.",
            cause: "The node has no network, its DNS server does not know the name, or a firewall or proxy is in between.",
            remedy: "check network and DNS on the node, not on the laptop; without a network, import the image from a file",
            commands: ["getent hosts registry-1.docker.io", "ip route", "sudo k3s ctr images import FILE.tar"],
            links: [K3S_AIRGAP],
        }
        RegistryAccessDenied = "R-09" "registry-access-denied" Fail {
            title: "The registry refuses access to the image.",
            cause: "The image is private and no credentials were sent, they are wrong, or the repository does not \
                exist: many registries answer the same.",
            remedy: "check the name; for a private image give the pod an imagePullSecret, or k3s the credentials in registries.yaml",
            commands: [
                "kubectl -n NAMESPACE create secret docker-registry pull --docker-server=REGISTRY --docker-username=USER --docker-password=TOKEN",
            ],
            links: [K3S_REGISTRIES],
        }
        RegistryCertificateUntrusted = "R-10" "registry-certificate-untrusted" Fail {
            title: "The certificate of a registry is not trusted.",
            cause: "A private registry often has a self-signed certificate, or one signed by a private CA that the \
                nodes do not trust. Or the certificate is for another name, or has expired.",
            remedy: "copy the CA certificate to each node and set it as `ca_file` in \
                /etc/rancher/k3s/registries.yaml; in image names, use a name from the certificate",
            commands: [
                "weaver registry check REGISTRY:PORT --ca CA.crt",
                "weaver registry config REGISTRY:PORT --ca-file /etc/rancher/k3s/registry-ca.crt",
                RESTART_K3S,
            ],
            links: [K3S_REGISTRIES],
        }
        ImageNotPulled = "R-11" "image-not-pulled" Warn {
            title: "A pod waits for its image.",
            cause: "The kubelet could not pull it and tries again; its message says why.",
            remedy: "read the events of the pod",
            commands: ["kubectl describe pod -n NAMESPACE POD"],
            links: ["https://kubernetes.io/docs/concepts/containers/images/"],
        }
        IngressAnnotationIgnored = "R-04" "ingress-annotation-ignored" Warn {
            title: "Traefik ignores an annotation of an Ingress.",
            cause: "k3s ships Traefik, and the annotation belongs to another controller or to Traefik 1. \
                Traefik does not report it.",
            remedy: "use the equivalent of Traefik: usually a Middleware, referenced in \
                `traefik.ingress.kubernetes.io/router.middlewares`",
            commands: ["kubectl get ingress,ingressclass -A -o yaml | weaver ingress lint"],
            links: ["https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/"],
        }
    }
    Kinds {
        ScopeImmutable = "C-01" "crd-scope-immutable" Fail {
            title: "The scope of a CRD cannot be changed.",
            cause: "A CRD stays Namespaced or Cluster; the new one has the other scope.",
            remedy: "compare the two first. Deleting the CRD deletes all its objects, and a running operator then \
                deletes their copies: save what you need first",
            commands: ["weaver crd diff"],
        }
        TokenRequestNotAKind = "C-02" "token-request-not-a-kind" Fail {
            title: "A token request is a subresource and cannot be applied.",
            cause: "`TokenRequest` is a subresource of ServiceAccounts; `kubectl apply` handles only top-level resources.",
            remedy: "request a token instead",
            commands: ["kubectl create token ACCOUNT -n NAMESPACE"],
        }
        ReleaseUnfinished = "C-11" "helm-release-unfinished" Warn {
            title: "helm refuses to change a release that it recorded as unfinished, failed or already installed.",
            cause: "helm was interrupted or timed out, and the Secret of that revision still says `pending`; or an earlier \
                installation failed.",
            remedy: "if no other helm is running for it, roll back to the last deployed revision. For the charts of k3s itself, check their Jobs",
            commands: [
                "helm history RELEASE -n NAMESPACE",
                "helm rollback RELEASE REVISION -n NAMESPACE",
                "kubectl -n kube-system get helmcharts,jobs",
            ],
            links: ["https://helm.sh/docs/helm/helm_rollback/"],
        }
        OtherWebhookFailed = "C-10" "other-webhook-failed" Fail {
            title: "A webhook that is not Config Weaver's fails.",
            cause: "The API server calls a webhook of another program and gets no valid answer: its Service is gone, \
                its pod does not run, or its certificate is not signed by the CA in its configuration.",
            remedy: "check the program that the webhook belongs to; reinstall it or, if it is gone for good, delete \
                its webhook configuration or CRD",
            commands: [
                "kubectl get pods -A",
                "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
            ],
        }
        ConversionWebhookFailed = "C-03" "conversion-webhook-failed" Fail {
            title: "The conversion webhook fails.",
            cause: "It is not running, or its certificate is not signed by the CA in the CRD. Until it works, \
                objects at another version than the stored one can be neither read nor written.",
            remedy: "start it; then run `weaver crd install` again, which also updates the CA (on a card the node agent does that)",
            commands: ["sudo systemctl restart weaver-webhook", "sudo systemctl restart weaver-node-agent"],
        }
        FinalizerWaits = "C-04" "finalizer-waits" Warn {
            title: "The deletion of an object waits for Config Weaver's finalizer, weaver.example.com/cleanup.",
            cause: "The operator is not running, or its ServiceAccount lacks rights, so it cannot clean up.",
            remedy: "start the operator: it cleans up, removes the finalizer and logs which copies it had to leave",
            commands: ["systemctl status weaver-operator", "weaver orphans list"],
        }
        CascadeOrphanDeletes = "C-05" "cascade-orphan-deletes" Warn {
            title: "`--cascade orphan` and `--cascade=orphan` delete the copies.",
            cause: "With `--cascade orphan`, kubectl takes `orphan` for a second object name and deletes the first \
                object with its copies. `--cascade=orphan` does not keep the copies either: the operator never sees \
                it.",
            remedy: "to keep the copies of a ConfigMapSync, delete it with `--orphan`, or set \
                `spec.deletionPolicy: Orphan` before you delete it; to get deleted copies back, apply the \
                ConfigMapSync again",
            commands: ["weaver sync delete NAME -n NAMESPACE --orphan", "weaver orphans list -n NAMESPACE"],
        }
        OwnerInOtherNamespace = "C-06" "owner-in-other-namespace" Fail {
            title: "An owner reference points to another namespace, so the owner counts as missing.",
            cause: "Kubernetes looks up an owner in the object's own namespace. If it is elsewhere, the \
                garbage collector deletes the object.",
            remedy: "remove the owner reference in the program or the manifest that sets it; then remove it from the \
                object. Config Weaver sets none: it knows its copies by labels",
            commands: [
                "kubectl patch KIND NAME -n NAMESPACE --type json -p \
                '[{\"op\":\"remove\",\"path\":\"/metadata/ownerReferences\"}]'",
            ],
            links: ["https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"],
        }
        KindsOk = "C-00" "kinds-ok" Ok {
            title: "The CRDs are installed and conversion works.",
            cause: "Each CRD exists, and an object was converted.",
        }
        DefinitionDiffers = "C-07" "definition-differs" Fail {
            title: "A CRD of Config Weaver is missing or differs from this version.",
            cause: "It was never installed, is of another version, or was changed. On a card the node agent restores it.",
            remedy: "compare them; on a card check that the node agent runs, elsewhere run `weaver crd install \
                --service config-weaver/weaver-webhook`",
            commands: ["weaver crd diff", "systemctl status weaver-node-agent"],
        }
        PartsTooFarApart = "C-12" "parts-too-far-apart" Warn {
            title: "A part of Config Weaver is more than one minor version behind another.",
            cause: "Operator, node agents and `weaver` work together when they are at most one minor version apart. \
                The older one may not know what the newer one writes.",
            remedy: "update the older one: on a node its packages, in a cluster image and manifests, on a laptop `weaver`",
            commands: ["weaver version", "sudo weaver node update"],
        }
        KindMissing = "C-13" "kind-missing" Fail {
            title: "The API server does not have a kind that a manifest or chart uses.",
            cause: "The CRD of another program is not installed yet, or Kubernetes no longer serves the kind in this version.",
            remedy: "install what brings the kind first, as the documentation of the chart says; if the same manifests bring it, \
                apply them again. Or turn off the part of the chart that uses it, as its monitoring",
            commands: ["kubectl get crds", "kubectl api-resources"],
            links: ["https://kubernetes.io/docs/reference/using-api/deprecation-guide/"],
        }
        SyncNotReady = "C-08" "sync-not-ready" Warn {
            title: "A resource is not Ready.",
            cause: "A right is missing, the source or a ServiceAccount does not exist, or another object \
                has the target's name. Its conditions say which.",
            remedy: "read its conditions and follow their remedy",
            commands: [
                "weaver sync explain NAME -n NAMESPACE",
                "kubectl describe servicetoken NAME -n NAMESPACE",
            ],
        }
        NoOperator = "C-09" "no-operator" Fail {
            title: "No operator acts on a resource.",
            cause: "The operator is not running, or cannot reach the API server; it has not reconciled the latest change.",
            remedy: "on a card, restart the operator; if the node agent has not started it yet, NODE-STATUS.txt says \
                why. In a cluster, restart its Deployment",
            commands: ["sudo systemctl restart weaver-operator", "cat /boot/firmware/NODE-STATUS.txt"],
        }
    }
    Accounts {
        MintingForbidden = "A-01" "minting-forbidden" Fail {
            title: "The operator may not mint tokens for a ServiceAccount.",
            cause: "The right is granted for each ServiceAccount separately, and is missing for this one.",
            remedy: "grant it; in a Role of your own: `create` on `serviceaccounts/token` in API group \"\" (core)",
            commands: ["weaver tenant allow NAMESPACE ACCOUNT"],
            links: [RBAC],
        }
        RightMissing = "A-02" "right-missing" Fail {
            title: "A ServiceAccount lacks a right.",
            cause: "No Role bound to the ServiceAccount grants it.",
            remedy: "grant it in the namespace that the finding names; for a ConfigMapSync the first command does it",
            commands: ["weaver sync explain NAME -n NAMESPACE --grant"],
            links: [RBAC],
        }
        TokenTooShort = "A-03" "token-too-short" Fail {
            title: "A token was requested for less than ten minutes.",
            cause: "The API server issues none for less than ten minutes.",
            remedy: "request 600 seconds or more: `spec.expirationSeconds` of a ServiceToken, or `--duration`",
            commands: ["kubectl create token ACCOUNT -n NAMESPACE --duration 10m"],
        }
        MintingTooWide = "A-04" "minting-too-wide" Warn {
            title: "The operator may mint tokens for every ServiceAccount.",
            cause: "The right on serviceaccounts/token is bound for the whole cluster. A user who may create a \
                ConfigMapSync can use any ServiceAccount of the namespace that they may name.",
            remedy: "bind it for single ServiceAccounts, as `weaver tenant allow` does, and remove the wide binding",
            commands: [
                "kubectl get clusterrolebindings -o wide | grep weaver-operator",
                "kubectl delete clusterrolebinding NAME",
                "weaver tenant allow NAMESPACE ACCOUNT",
            ],
            links: [RBAC],
        }
        RightsMissingForCheck = "A-05" "rights-missing-for-check" Unknown {
            title: "These credentials do not have the rights for this check.",
            cause: "The account of the kubeconfig lacks the right.",
            remedy: "use an administrator's kubeconfig; on a k3s server its own",
            commands: ["sudo weaver doctor", "weaver doctor --kubeconfig FILE"],
            links: [RBAC],
        }
        AccountPolicyMissing = "A-06" "account-policy-missing" Warn {
            title: "The admission policy for ServiceAccount names is missing.",
            cause: "It was deleted or never installed. A user who may write ConfigMapSyncs or ServiceTokens \
                can have the operator act as any ServiceAccount of that namespace for which it may mint \
                tokens.",
            remedy: "install it; a running agent does so within a minute",
            commands: ["sudo weaver crd install  # in a cluster: weaver crd install --service \
                config-weaver/weaver-webhook", "systemctl status weaver-node-agent"],
            links: [ADMISSION],
        }
        AccountPolicyChanged = "A-07" "account-policy-changed" Warn {
            title: "The admission policy for ServiceAccount names is turned off or of another version.",
            cause: "The binding belongs to the administrator and is not changed; a policy of another \
                version stays until that version's installer has run. Users it lets through can have the \
                operator act as any ServiceAccount of the namespace for which it may mint tokens.",
            remedy: "if this is not intended, delete the binding and run `weaver crd install`, which creates policy and binding again",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-accounts",
                "sudo weaver crd install  # in a cluster: weaver crd install --service config-weaver/weaver-webhook",
            ],
            links: [ADMISSION],
        }
        NodePolicyNotInForce = "A-08" "node-policy-not-in-force" Warn {
            title: "The admission policy that limits nodes to their own NodeReport is not in force.",
            cause: "The policy or its binding is missing, turned off, or of another version. A compromised \
                node can write the NodeReports of other nodes.",
            remedy: "if this is not intended, delete the binding and run `weaver crd install`, which creates policy and binding again",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-node-reports --ignore-not-found",
                "sudo weaver crd install  # in a cluster: weaver crd install --service config-weaver/weaver-webhook",
            ],
            links: [ADMISSION],
        }
        DeletionPolicyNotInForce = "A-09" "deletion-policy-not-in-force" Warn {
            title: "The admission policy against `kubectl delete --cascade=orphan` is not in force.",
            cause: "The policy `weaver-deletions` or its binding is missing or turned off. `kubectl delete \
                --cascade=orphan` of a ConfigMapSync is then accepted, and deletes its copies.",
            remedy: "if this is not intended, delete the binding and run `weaver crd install`, which creates policy \
                and binding again. Until then keep copies with `weaver sync delete NAME --orphan`",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-deletions --ignore-not-found",
                "sudo weaver crd install  # in a cluster: weaver crd install --service config-weaver/weaver-webhook",
            ],
            links: [ADMISSION],
        }
        AccountMissing = "A-10" "account-missing" Fail {
            title: "A ServiceAccount does not exist.",
            cause: "A pod or a request for a token names it, and its namespace does not have it.",
            remedy: "apply the manifest or the chart that has it again, into the same namespace, or create it",
            commands: ["kubectl get serviceaccounts -n NAMESPACE", "kubectl create serviceaccount ACCOUNT -n NAMESPACE"],
            links: ["https://kubernetes.io/docs/concepts/security/service-accounts/"],
        }
    }
    Leases {
        LeaseLost = "L-01" "lease-lost" Warn {
            title: "k3s lost a leader-election lease because the storage is too slow.",
            cause: "The database on the card did not answer in time. k3s needs writes that take at most 10 \
                ms, which many cards do not sustain.",
            remedy: "use an SSD and write `data = \"LABEL=NAME\"` below [storage] in weaver.toml, which moves the data of k3s to \
                it; or an A2 card, by `weaver node backup` and `restore`. Move other writers off the card",
            commands: ["weaver explain --journal k3s", "sudo weaver node backup /mnt/usb --volumes"],
            links: ["https://github.com/k3s-io/k3s/issues/2615", K3S_REQUIREMENTS],
        }
    }
    }};
}
