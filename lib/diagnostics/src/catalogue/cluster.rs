//! What runs in the cluster: registries and images, kinds, accounts, leases.

macro_rules! cluster_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Images {
        RegistryPlainHttp = "R-01" "registry-plain-http" Fail {
            title: "An image registry speaks plain HTTP, and was asked for HTTPS.",
            cause: "containerd and skopeo ask a registry by HTTPS unless told otherwise. The last error \
                shown may be that of the default HTTPS endpoint, and not of the one configured.",
            remedy: "name the registry with `http://` in /etc/rancher/k3s/registries.yaml and restart k3s; \
                for skopeo: `--dest-tls-verify=false`",
            commands: [
                "weaver registry config REGISTRY:PORT --http | sudo tee /etc/rancher/k3s/registries.yaml",
                RESTART_K3S,
            ],
            links: [K3S_REGISTRIES],
        }
        ImageWithoutRegistry = "R-02" "image-without-registry" Fail {
            title: "An image without a registry is looked for on docker.io.",
            cause: "Without a dot or a colon in its first part, an image is one of docker.io.",
            remedy: "write the registry in front: REGISTRY:PORT/IMAGE",
            links: [K3S_REGISTRIES],
        }
        RegistryNotAService = "R-03" "registry-not-a-service" Warn {
            title: "A registry is looked for among the Services.",
            cause: "A registry of k3d is a container on the Docker network beside the cluster.",
            remedy: "inside the cluster it is REGISTRY:5000, on your machine localhost with the port that \
                Docker gave it",
            commands: ["k3d registry list", "docker ps --filter label=k3d.role=registry"],
        }
        IngressAnnotationIgnored = "R-04" "ingress-annotation-ignored" Warn {
            title: "An annotation of an Ingress has no effect with Traefik.",
            cause: "k3s brings Traefik, and the annotation is one of another controller or of Traefik's \
                first version. Nothing says so.",
            remedy: "write what Traefik has for it: mostly a Middleware, named in \
                `traefik.ingress.kubernetes.io/router.middlewares`",
            commands: ["kubectl get ingress -A -o yaml | weaver ingress lint"],
            links: ["https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/"],
        }
    }
    Kinds {
        ScopeImmutable = "C-01" "crd-scope-immutable" Fail {
            title: "The scope of a definition cannot be changed.",
            cause: "A definition is Namespaced or Cluster for ever; the new one is the other.",
            remedy: "compare first; deleting the definition deletes each of its objects, and a running \
                operator deletes their copies with them: copy what you need before",
            commands: ["weaver crd diff"],
        }
        TokenRequestNotAKind = "C-02" "token-request-not-a-kind" Fail {
            title: "A token request is a subresource and no kind.",
            cause: "It is a subresource of ServiceAccounts, and is not applied.",
            remedy: "ask for a token",
            commands: ["kubectl create token ACCOUNT -n NAMESPACE"],
        }
        ConversionWebhookFailed = "C-03" "conversion-webhook-failed" Fail {
            title: "The conversion webhook fails.",
            cause: "It does not run, or its certificate is not of the CA in the definition. Objects stored \
                at another version can be neither read nor written meanwhile.",
            remedy: "start it; then install the definitions again, which also mends the CA",
            commands: ["sudo systemctl restart weaver-webhook", "sudo systemctl restart weaver-node-agent"],
        }
        FinalizerWaits = "C-04" "finalizer-waits" Warn {
            title: "An object waits for our finalizer.",
            cause: "The operator is not running, or its account's rights are gone, so it cannot tidy up.",
            remedy: "start the operator; it lets go by itself when nothing can be done any more, and says \
                what it left behind",
            commands: ["systemctl status weaver-operator", "weaver orphans list"],
        }
        CascadeOrphanDeletes = "C-05" "cascade-orphan-deletes" Warn {
            title: "`--cascade orphan` and `--cascade=orphan` delete the copies.",
            cause: "`--cascade orphan` reads `orphan` as a second name: the first object was deleted with \
                what belongs to it. `--cascade=orphan` does not keep copies either: the API server forgets \
                it before the operator acts.",
            remedy: "to keep the copies of a ConfigMapSync, delete it with `--orphan`, or set \
                `spec.deletionPolicy: Orphan` before you delete it; to get deleted copies back, apply the \
                ConfigMapSync again",
            commands: ["weaver sync delete NAME -n NAMESPACE --orphan", "weaver orphans list -n NAMESPACE"],
        }
        OwnerInOtherNamespace = "C-06" "owner-in-other-namespace" Fail {
            title: "An owner stands in another namespace, where it counts as gone.",
            cause: "An owner reference is looked up in the object's own namespace; from elsewhere the object \
                counts as ownerless and is deleted.",
            remedy: "remove the reference; Config Weaver marks its copies by a label instead",
            links: ["https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"],
        }
        KindsOk = "C-00" "kinds-ok" Ok {
            title: "The kinds are installed as they should be, and converted.",
            cause: "Each definition is there, and an object was converted.",
        }
        DefinitionDiffers = "C-07" "definition-differs" Fail {
            title: "A definition of our kinds is missing, or not as this version has it.",
            cause: "They were never installed, are of another version, or somebody has changed them; the \
                agent puts them back.",
            remedy: "see the difference, and whether the agent runs",
            commands: ["weaver crd diff", "systemctl status weaver-node-agent"],
        }
        SyncNotReady = "C-08" "sync-not-ready" Warn {
            title: "A resource is not as it should be.",
            cause: "A right is missing, the source or an account is not there, or somebody else's object is \
                in the way: its conditions say which.",
            remedy: "see what it says, and follow that",
            commands: [
                "weaver sync explain NAME -n NAMESPACE",
                "kubectl describe servicetoken NAME -n NAMESPACE",
            ],
        }
        NobodyActs = "C-09" "nobody-acts" Fail {
            title: "Nobody acts on a resource.",
            cause: "The operator does not run, or cannot reach the API server: what was changed has not been \
                looked at.",
            remedy: "start it again; where the agent has not started it yet, its report says why",
            commands: ["sudo systemctl restart weaver-operator", "cat /boot/firmware/NODE-STATUS.txt"],
        }
    }
    Accounts {
        MintingForbidden = "A-01" "minting-forbidden" Fail {
            title: "Tokens of an account may not be minted.",
            cause: "Nobody has allowed it: the right is given for one account at a time.",
            remedy: "allow it; in a Role of your own: `create` on `serviceaccounts/token` in API group \"\", \
                the core group",
            commands: ["weaver tenant allow NAMESPACE ACCOUNT"],
            links: [RBAC],
        }
        RightMissing = "A-02" "right-missing" Fail {
            title: "A ServiceAccount lacks a right.",
            cause: "No Role that is bound to the account has it.",
            remedy: "grant it in the namespace where it is wanted",
            commands: ["weaver tenant check NAMESPACE ACCOUNT"],
            links: [RBAC],
        }
        TokenTooShort = "A-03" "token-too-short" Fail {
            title: "A token was asked for less than ten minutes.",
            cause: "The API server mints none for less than ten minutes.",
            remedy: "ask for 600 seconds or more",
        }
        MintingTooWide = "A-04" "minting-too-wide" Warn {
            title: "The operator may mint tokens of every account.",
            cause: "Somebody has bound the right on serviceaccounts/token for the whole cluster: whoever may \
                write a ConfigMapSync may then act as any account of that namespace that they may name.",
            remedy: "bind it for single accounts, as `weaver tenant allow` does, and remove the wide \
                binding",
            commands: [
                "kubectl get clusterrolebindings -o wide | grep weaver-operator",
                "kubectl delete clusterrolebinding NAME",
                "weaver tenant allow NAMESPACE ACCOUNT",
            ],
            links: [RBAC],
        }
        MayNotLook = "A-05" "may-not-look" Unknown {
            title: "What was to be looked at may not be seen with these rights.",
            cause: "The account of the kubeconfig has not the right to look there.",
            remedy: "look with an administrator's kubeconfig",
            links: [RBAC],
        }
        AccountPolicyMissing = "A-06" "account-policy-missing" Warn {
            title: "Nothing asks who may name a ServiceAccount.",
            cause: "Somebody has deleted it, or nobody has installed it: whoever may write a ConfigMapSync \
                or a ServiceToken can have the operator act as any account of that namespace that it may \
                mint tokens for.",
            remedy: "install it; the agent does that by itself within a minute where it runs",
            commands: ["sudo weaver crd install", "systemctl status weaver-node-agent"],
            links: [ADMISSION],
        }
        AccountPolicyChanged = "A-07" "account-policy-changed" Warn {
            title: "The rules who may name a ServiceAccount are turned off, or not those of this version.",
            cause: "Its binding is the owner's to change, and stays as it is; rules of another version stay \
                until that version's installer has run. Who is let through can have the operator act as any \
                account of the namespace that it may mint tokens for.",
            remedy: "if nobody means it so, delete the binding and install; `weaver crd install` makes both \
                as they were",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-accounts",
                "sudo weaver crd install",
            ],
            links: [ADMISSION],
        }
        NodePolicyNotInForce = "A-08" "node-policy-not-in-force" Warn {
            title: "Nothing limits a node to the NodeReport of its own name.",
            cause: "Policy or binding is not there, or is turned off, or of another version: a node that \
                somebody has broken into can write the NodeReports of the others.",
            remedy: "if nobody means it so, delete the binding and install; `weaver crd install` makes both \
                as they were",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-node-reports --ignore-not-found",
                "sudo weaver crd install",
            ],
            links: [ADMISSION],
        }
        DeletionPolicyNotInForce = "A-09" "deletion-policy-not-in-force" Warn {
            title: "A deletion that orphans dependents is not refused.",
            cause: "Policy or binding `weaver-deletions` is not there, or is turned off. Nothing then \
                refuses `kubectl delete --cascade=orphan` of a ConfigMapSync, which deletes its copies.",
            remedy: "unless that is intended, delete the binding and install; `weaver crd install` creates \
                both again. Until then keep copies with `weaver sync delete NAME --orphan`",
            commands: [
                "kubectl delete validatingadmissionpolicybinding weaver-deletions --ignore-not-found",
                "sudo weaver crd install",
            ],
            links: [ADMISSION],
        }
    }
    Leases {
        LeaseLost = "L-01" "lease-lost" Warn {
            title: "A lease was lost because the storage is too slow.",
            cause: "The database on the card did not answer in time: k3s needs writes that end within 10 ms, \
                and many cards do not keep that under load.",
            remedy: "use an SSD, or a card of class A2; take other writers off the card",
            commands: ["weaver explain --journal k3s"],
            links: ["https://github.com/k3s-io/k3s/issues/2615", K3S_REQUIREMENTS],
        }
    }
    }};
}
