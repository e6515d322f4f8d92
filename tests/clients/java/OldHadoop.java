import com.amazonaws.ClientConfiguration;
import com.amazonaws.HttpMethod;
import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.AmazonS3Exception;
import com.amazonaws.services.s3.model.CompleteMultipartUploadRequest;
import com.amazonaws.services.s3.model.CopyObjectRequest;
import com.amazonaws.services.s3.model.DeleteObjectsRequest;
import com.amazonaws.services.s3.model.GetObjectRequest;
import com.amazonaws.services.s3.model.InitiateMultipartUploadRequest;
import com.amazonaws.services.s3.model.ListMultipartUploadsRequest;
import com.amazonaws.services.s3.model.ListObjectsRequest;
import com.amazonaws.services.s3.model.ListObjectsV2Request;
import com.amazonaws.services.s3.model.ListPartsRequest;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PartETag;
import com.amazonaws.services.s3.model.PutObjectRequest;
import com.amazonaws.services.s3.model.UploadPartRequest;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.List;

/**
 * Uses a bucket as Hadoop's s3a did up to 3.3, with the signer that `fs.s3a.signing-algorithm` names (S3SignerType is
 * version 2). Prints "ok NAME" or "FAIL NAME: why" for each step; the exit code is the number of failures.
 */
public final class OldHadoop {
    private static final String AWKWARD = "a b+c=d&e@f,g(h)'i!j*k~l:m;n$o/ü☃.txt";
    private static int failures = 0;

    public static void main(String[] args) {
        String endpoint = args[0];
        String bucket = args[1];
        String prefix = args[2];
        AmazonS3 s3 = AmazonS3ClientBuilder.standard()
            .withClientConfiguration(new ClientConfiguration().withSignerOverride(args[3]).withMaxErrorRetry(0))
            .withCredentials(new AWSStaticCredentialsProvider(new BasicAWSCredentials(
                System.getenv("AWS_ACCESS_KEY_ID"), System.getenv("AWS_SECRET_ACCESS_KEY"))))
            .withEndpointConfiguration(new EndpointConfiguration(endpoint, "us-east-1"))
            .withPathStyleAccessEnabled(true)
            .build();
        step("bucket exists", () -> same(s3.doesBucketExistV2(bucket), true));
        step("bucket location", () -> same(s3.getBucketLocation(bucket), "US"));
        step("list buckets", () -> same(s3.listBuckets().stream().anyMatch(each -> each.getName().equals(bucket)), true));
        step("put and get", () -> {
            ObjectMetadata metadata = new ObjectMetadata();
            metadata.setContentType("text/plain");
            metadata.addUserMetadata("colour", "red");
            put(s3, bucket, prefix + "hello.txt", "hello", metadata);
            same(s3.getObjectAsString(bucket, prefix + "hello.txt"), "hello");
            ObjectMetadata kept = s3.getObjectMetadata(bucket, prefix + "hello.txt");
            same(kept.getUserMetaDataOf("colour"), "red");
            same(kept.getContentType(), "text/plain");
        });
        step("range", () -> {
            GetObjectRequest request = new GetObjectRequest(bucket, prefix + "hello.txt").withRange(1, 3);
            try (InputStream content = s3.getObject(request).getObjectContent()) {
                same(new String(content.readAllBytes(), StandardCharsets.UTF_8), "ell");
            }
        });
        step("awkward names", () -> {
            put(s3, bucket, prefix + AWKWARD, "awkward", new ObjectMetadata());
            same(s3.getObjectAsString(bucket, prefix + AWKWARD), "awkward");
        });
        step("folders", () -> {
            put(s3, bucket, prefix + "folder/", "", new ObjectMetadata());
            same(s3.doesObjectExist(bucket, prefix + "folder/"), true);
        });
        step("copy", () -> {
            ObjectMetadata metadata = new ObjectMetadata();
            metadata.addUserMetadata("colour", "blue");
            s3.copyObject(new CopyObjectRequest(bucket, prefix + AWKWARD, bucket, prefix + "copied")
                .withNewObjectMetadata(metadata));
            same(s3.getObjectAsString(bucket, prefix + "copied"), "awkward");
            same(s3.getObjectMetadata(bucket, prefix + "copied").getUserMetaDataOf("colour"), "blue");
        });
        step("list", () -> {
            same(s3.listObjects(new ListObjectsRequest(bucket, prefix, "", "/", 100)).getObjectSummaries().size(), 2);
            same(s3.listObjectsV2(new ListObjectsV2Request().withBucketName(bucket).withPrefix(prefix).withMaxKeys(2))
                .isTruncated(), true);
        });
        step("multipart", () -> {
            String key = prefix + "parts of " + AWKWARD;
            String id = s3.initiateMultipartUpload(new InitiateMultipartUploadRequest(bucket, key)).getUploadId();
            byte[] bytes = "part".getBytes(StandardCharsets.UTF_8);
            PartETag part = s3.uploadPart(new UploadPartRequest().withBucketName(bucket).withKey(key).withUploadId(id)
                .withPartNumber(1).withPartSize(bytes.length).withInputStream(new ByteArrayInputStream(bytes)))
                .getPartETag();
            same(s3.listParts(new ListPartsRequest(bucket, key, id)).getParts().size(), 1);
            same(s3.listMultipartUploads(new ListMultipartUploadsRequest(bucket).withPrefix(prefix))
                .getMultipartUploads().size(), 1);
            s3.completeMultipartUpload(new CompleteMultipartUploadRequest(bucket, key, id, List.of(part)));
            same(s3.getObjectAsString(bucket, key), "part");
        });
        step("presign", () -> {
            Date soon = new Date(System.currentTimeMillis() + 60_000);
            String url = s3.generatePresignedUrl(bucket, prefix + AWKWARD, soon, HttpMethod.GET).toString();
            try (InputStream content = java.net.URI.create(url).toURL().openStream()) {
                same(new String(content.readAllBytes(), StandardCharsets.UTF_8), "awkward");
            }
        });
        step("delete", () -> {
            s3.deleteObject(bucket, prefix + "hello.txt");
            s3.deleteObjects(new DeleteObjectsRequest(bucket).withKeys(prefix + AWKWARD, prefix + "copied"));
            same(s3.doesObjectExist(bucket, prefix + AWKWARD), false);
        });
        step("what is missing", () -> {
            try {
                s3.getObject(bucket, prefix + "no such object");
                throw new IllegalStateException("no error");
            } catch (AmazonS3Exception told) {
                same(told.getErrorCode(), "NoSuchKey");
            }
        });
        System.exit(failures);
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void put(AmazonS3 s3, String bucket, String key, String body, ObjectMetadata metadata) {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        metadata.setContentLength(bytes.length);
        s3.putObject(new PutObjectRequest(bucket, key, new ByteArrayInputStream(bytes), metadata));
    }

    private static void same(Object got, Object expected) {
        if (!expected.equals(got)) {
            throw new IllegalStateException(got + " is not " + expected);
        }
    }

    private static void step(String name, Step step) {
        try {
            step.run();
            System.out.println("ok " + name);
        } catch (Exception error) {
            failures++;
            System.out.println("FAIL " + name + ": " + error);
        }
    }
}
